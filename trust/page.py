"""docs/trust.md, written from the records."""

from __future__ import annotations

from collections.abc import Mapping

from trust.code import LIBRARIES
from trust.figure import Figure
from trust.records import Records, Told

HEAD = """# Figures for trust

What could go wrong, tried many times. `make trust` runs it all on one thread, goes on where an earlier run ended, and
writes this page from its records; a second one beside it takes figures that the first has not begun. A small part of
each figure is in the tests.

{run}

| what was tried | promise | tried | failed |
|---|---|---|---|
"""

FOOT = """
`python -m trust FIGURE --case NUMBER` tries one case again: the same number is the same case. What is forged, tampered
with or hostile here is made by a generator, not by an enemy: these are figures of care, not a proof that there is no
fault. The proofs are the [certificates](examples/certificate.md) themselves, and what they rest on is in
[Architecture](architecture.md#what-a-certificate-rests-on).
"""


def page(figures: Mapping[str, Figure], records: Records) -> str:
    known = {name: records.told(figure) for name, figure in figures.items()}
    rows = "".join(_row(figure, known[name]) for name, figure in figures.items())
    return (
        HEAD.replace("{run}", _run(records, known))
        + rows
        + "\n"
        + "".join(_part(figure, known[name]) for name, figure in figures.items())
        + FOOT
    )


def _run(records: Records, known: Mapping[str, Told]) -> str:
    """Of what code all of it is, and how long it took."""
    minutes = sum(told.cpu for told in known.values()) / 60
    return (
        "All figures below are of one state of the code: records of any other are left out. `python -m trust.code` "
        f"prints the digest of a state, sources and versions of {', '.join(LIBRARIES)}; of this one it is "
        f"`{records.code[:16]}…`. It took {minutes:.0f} minutes of CPU time in all."
    )


def _row(figure: Figure, told: Told) -> str:
    tried = f"{told.done:,}" + ("" if told.done >= figure.count else f" of {figure.count:,}")
    link = f"[{figure.title}](#{figure.name})"
    return f"| {link} | {figure.promise} | {tried} | {len(told.failures) if told.done else '–'} |\n"


def _part(figure: Figure, told: Told) -> str:
    lines = [f"## {figure.title[0].upper()}{figure.title[1:]} {{#{figure.name}}}", "", figure.checked, ""]
    if told.done == 0:
        return "\n".join([*lines, "Not run yet.", "", ""])
    lines += ["| seen | times |", "|---|---|"]
    lines += [f"| {word} | {count:,} |" for word, count in sorted(told.words.items(), key=lambda each: -each[1])]
    lines += ["", *(f"Largest {name}: {value:.3g}." for name, value in sorted(told.worst.items())), ""]
    for failure in told.failures[:20]:
        lines.append(f"- failed, case {failure['case']}: {failure['wrong']}")
    days, machines = ", ".join(sorted(told.days)), "; ".join(sorted(told.machines))
    lines.append(
        f"`python -m trust {figure.name}`: {told.cpu / 60:.1f} minutes of CPU time, {days}, {machines}, beside other "
        f"work (load up to {told.load:g})."
    )
    return "\n".join([*lines, "", ""])
