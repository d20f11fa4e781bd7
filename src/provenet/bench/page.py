"""The results in words: a table of tables, in Markdown."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from provenet.bench.summary import Summary


def overview(summary: Summary) -> str:
    """A line an entrant, the best average rank first."""
    means, ranks, seconds, gaps = summary.means, summary.ranks, summary.typical_seconds, summary.worst_gaps
    head = ("", "mean score", "average rank", "seconds (median)", "largest proven gap")
    rows = [
        (
            who,
            f"{100 * means[:, k].mean():.1f}",
            f"{ranks[k]:.2f}",
            f"{seconds[k]:.2f}",
            "–" if np.isnan(gaps[k]) else f"{gaps[k]:.1e}",
        )
        for k, who in sorted(enumerate(summary.who), key=lambda each: ranks[each[0]])
    ]
    return markdown(head, rows)


def each_table(summary: Summary) -> str:
    """A line a table: means and standard deviations over the splits, in per cent; the best in bold."""
    rows = []
    for name, means, spread, splits in zip(summary.tables, summary.means, summary.spread, summary.splits, strict=True):
        shown = [f"**{100 * mean:.1f}**" if mean >= means.max() - 1e-12 else f"{100 * mean:.1f}" for mean in means]
        if splits > 1:  # one split has no spread
            shown = [
                f"{cell}\N{NO-BREAK SPACE}±\N{NO-BREAK SPACE}{100 * each:.1f}"
                for cell, each in zip(shown, spread, strict=True)
            ]
        rows.append((name, str(splits), *shown))
    return markdown(("", "splits", *summary.who), rows)


def versus(summary: Summary, one: str, other: str) -> str:
    """A sentence: by how much ``one`` is ahead of ``other``, and where it falls behind most."""
    ahead = summary.means[:, summary.who.index(one)] - summary.means[:, summary.who.index(other)]
    worst = int(ahead.argmin())
    wins, losses = int((ahead > 1e-12).sum()), int((ahead < -1e-12).sum())
    return (
        f"{one} against {other}: {100 * ahead.mean():+.2f} points on average, better on {wins} of {len(ahead)} tables, "
        f"worse on {losses}; at worst {100 * ahead[worst]:+.1f} points, on {summary.tables[worst]}."
    )


def markdown(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"
