"""The HTML report, and a certificate in words."""

from provenet.report.page import render_report, report, write_report
from provenet.report.words import Verdict, summary, verdict

__all__ = ["Verdict", "render_report", "report", "summary", "verdict", "write_report"]


def __dir__() -> list[str]:
    """What is public, and nothing else."""
    return __all__
