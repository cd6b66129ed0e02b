"""The plot of the results."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from benchmarks.common import svg

# Pixels for the longest title of a client.
_LABEL = 350


def plot(results: Iterable[dict[str, Any]]) -> str:
    """Returns bars of records per CPU second; `results` is that of pipeline.json."""
    bars = [
        svg.Bar(
            one["title"],
            1e6 / one["cpu"],
            f"{1e6 / one['cpu']:,.0f}",
            "grete" if one["title"].startswith("Grete") else "floor" if one["client"] == "no-kafka" else "peer",
        )
        for one in results
        if one["client"] != "forward"  # no work in a handler
    ]
    bars.sort(key=lambda bar: -bar.value)
    return svg.plot(
        "Consume, transform, produce",
        "JSON orders to JSON invoices with their keys; longer is better",
        [svg.Panel("Records per CPU second", bars)],
        _LABEL,
    )
