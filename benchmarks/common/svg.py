"""Horizontal bars as a hand-written SVG: readable on light and dark pages, no library."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

WIDTH, LABEL, VALUE = 860, 270, 110
BAR, GAP, HEAD = 18, 6, 44
COLOURS = {"grete": "#2f9e6e", "peer": "#7f8ea3", "floor": "#c9a227"}
STYLE = """
text { font: 13px system-ui, sans-serif; fill: #24292f }
.title { font-weight: 600; font-size: 14px }
.quiet { fill: #6e7781; font-size: 12px }
@media (prefers-color-scheme: dark) { text { fill: #e6edf3 } .quiet { fill: #9198a1 } }
"""


@dataclass(frozen=True)
class Bar:
    """One labelled length; `kind` is a key of COLOURS."""

    label: str
    value: float
    text: str
    kind: str


@dataclass(frozen=True)
class Panel:
    """Bars that share a scale."""

    title: str
    bars: Sequence[Bar]

    @property
    def height(self) -> int:
        return HEAD + len(self.bars) * (BAR + GAP)


def plot(title: str, subtitle: str, panels: Sequence[Panel], label: int = LABEL) -> str:
    """The panels one below the other; `label`: width of the labels."""
    top = 56
    height = top + sum(panel.height for panel in panels) + 10
    parts = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
            f'role="img" aria-label="{escape(title)}">'
        ),
        f"<style>{STYLE}</style>",
        f'<text x="0" y="18" class="title">{escape(title)}</text>',
        f'<text x="0" y="38" class="quiet">{escape(subtitle)}</text>',
    ]
    for panel in panels:
        parts += _panel(panel, top, label)
        top += panel.height
    return "\n".join([*parts, "</svg>", ""])


def _panel(panel: Panel, top: int, label: int) -> list[str]:
    longest = max((bar.value for bar in panel.bars), default=0) or 1.0
    parts = [f'<text x="0" y="{top + 26}" class="title">{escape(panel.title)}</text>']
    for index, bar in enumerate(panel.bars):
        y = top + HEAD - 8 + index * (BAR + GAP)
        width = max(1.0, (WIDTH - label - VALUE) * bar.value / longest)
        parts += [
            f'<text x="{label - 10}" y="{y + 13}" text-anchor="end">{escape(bar.label)}</text>',
            f'<rect x="{label}" y="{y}" width="{width:.1f}" height="{BAR}" rx="2" fill="{COLOURS[bar.kind]}"/>',
            f'<text x="{label + width + 6:.1f}" y="{y + 13}">{escape(bar.text)}</text>',
        ]
    return parts
