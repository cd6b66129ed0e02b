"""Records `grete demo` as docs/images/demo.svg: `python -m docsite.recording`.

The picture plays the frames of the terminal in a loop. It loads nothing, and shows only the last frame to readers who
prefer no motion.
"""

import html
import io
import sys
import time
from collections.abc import Iterator

import rich.console
import rich.segment
import rich.style

from docsite.outside import DOCS
from grete._demo.claims import new_claims
from grete._demo.picture import Picture
from grete._demo.screen import render
from grete._demo.stage import Stage
from grete._demo.story import Story

FILE = DOCS / "images" / "demo.svg"
COLUMNS = 80
# Seconds: between two frames, and how long the last frame stays.
_INTERVAL, _LAST = 0.8, 6.0
_CHARACTER, _LINE, _MARGIN = 8.4, 18, 16
_COLORS = {"green": "#56d364", "red": "#ff7b72", "yellow": "#e3b341", "cyan": "#56d4dd", "blue": "#79c0ff"}
_TEXT, _DIM, _BACKGROUND = "#e6edf3", "#9198a1", "#0d1117"

Line = tuple[rich.segment.Segment, ...]
"""Pieces of a line, each with its style."""


class Recorder:
    """View that keeps what a terminal would show."""

    def __init__(self) -> None:
        self.frames: list[tuple[float, list[Line]]] = []
        """Seconds since the first frame, and the lines of each frame."""
        self._console = rich.console.Console(
            width=COLUMNS, file=io.StringIO(), force_terminal=True, color_system="standard", highlight=False
        )
        self._begun = time.monotonic()

    def draw(self, picture: Picture) -> None:
        """Keeps the picture, if the last one is old enough."""
        at = time.monotonic() - self._begun
        if not self.frames or at - self.frames[-1][0] >= _INTERVAL:
            self.keep(picture)

    def keep(self, picture: Picture) -> None:
        """Keeps the picture."""
        lines = self._console.render_lines(render(picture), pad=False)
        self.frames.append((time.monotonic() - self._begun, [tuple(line) for line in lines]))

    def close(self) -> None:
        """Does nothing: there is no terminal to give back."""


def svg(frames: list[tuple[float, list[Line]]]) -> str:
    """Returns the frames as one picture that plays them."""
    total = frames[-1][0] + _LAST
    height = max(len(lines) for _, lines in frames) * _LINE + 2 * _MARGIN
    width = COLUMNS * _CHARACTER + 2 * _MARGIN
    ends = [at for at, _ in frames[1:]] + [total]
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height}" role="img">',
        "<title>grete demo: a record that fails, its dead letter, a killed process, and the replay</title>",
        f"<style>{''.join(_styles(frames, ends, total))}</style>",
        f'<rect width="100%" height="100%" rx="8" fill="{_BACKGROUND}"/>',
    ]
    for number, (_, lines) in enumerate(frames):
        parts.append(f'<g class="frame" id="frame-{number}">{"".join(_texts(lines))}</g>')
    return "\n".join([*parts, "</svg>", ""])


def _styles(frames: list[tuple[float, list[Line]]], ends: list[float], total: float) -> Iterator[str]:
    yield f"text{{font:14px ui-monospace,Menlo,Consolas,monospace;fill:{_TEXT};white-space:pre}}.dim{{fill:{_DIM}}}"
    yield ".bold{font-weight:600}" + "".join(f".{name}{{fill:{color}}}" for name, color in _COLORS.items())
    last = len(frames) - 1
    yield f".frame{{visibility:hidden}}#frame-{last}{{visibility:visible}}"
    yield "@media (prefers-reduced-motion:no-preference){"
    for number, ((begin, _), end) in enumerate(zip(frames, ends, strict=True)):
        first, after = 100 * begin / total, 100 * end / total
        hidden = "" if number == 0 else "0%{visibility:hidden}"
        ending = "" if number == last else f"{after:.2f}%,100%{{visibility:hidden}}"
        yield f"@keyframes f{number}{{{hidden}{first:.2f}%{{visibility:visible}}{ending}}}"
        yield f"#frame-{number}{{animation:f{number} {total:.1f}s step-end infinite}}"
    yield "}"


def _texts(lines: list[Line]) -> Iterator[str]:
    for row, line in enumerate(lines):
        column = 0
        for text, style, _ in line:
            if text.strip():
                at = f'x="{_MARGIN + column * _CHARACTER:g}" y="{_MARGIN + (row + 0.75) * _LINE:g}"'
                # The length keeps columns straight in fonts of another width.
                length = f'textLength="{len(text) * _CHARACTER:g}"'
                yield f"<text {at} {length}{_classes(style)}>{html.escape(text)}</text>"
            column += len(text)


def _classes(style: rich.style.Style | None) -> str:
    if style is None:
        return ""
    names = [name for name, has in (("bold", style.bold), ("dim", style.dim)) if has]
    if style.color is not None and style.color.name in _COLORS:
        names.append(style.color.name)
    return f' class="{" ".join(names)}"' if names else ""


def main() -> int:
    """Runs the demo and writes the file. Returns the exit status: 1 if a claim of the demo did not come true."""
    picture, view = Picture(new_claims()), Recorder()
    with Stage(picture, view) as stage:
        Story(stage).run()
    if failed := picture.failed():
        sys.stderr.write(f"the demo failed, and nothing was written: {failed}\n")
        return 1
    view.keep(picture)
    FILE.parent.mkdir(parents=True, exist_ok=True)
    FILE.write_text(svg(view.frames))
    return 0


if __name__ == "__main__":
    sys.exit(main())
