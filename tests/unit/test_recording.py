"""The recorded demo: a picture that plays frames, loads nothing, and stands still for readers who want that."""

from __future__ import annotations

import re
from xml.etree import ElementTree

from docsite.recording import FILE, Recorder, svg
from grete._demo.claims import new_claims
from grete._demo.picture import Picture

_GROUP = "{http://www.w3.org/2000/svg}g"


def test_each_frame_is_shown_once_and_the_last_one_without_motion() -> None:
    recorder = Recorder()
    picture = Picture(new_claims())
    for number in range(3):
        picture.note(f"<step {number}>")
        recorder.keep(picture)
    frames = [(float(at), lines) for at, (_, lines) in enumerate(recorder.frames)]
    text = svg(frames)
    groups = [group.get("id") for group in ElementTree.fromstring(text).iter(_GROUP)]
    assert groups == ["frame-0", "frame-1", "frame-2"]
    still, _, moving = text.partition("@media (prefers-reduced-motion:no-preference)")
    assert "#frame-2{visibility:visible}" in still
    assert re.findall(r"#frame-(\d)\{animation:f\1 ", moving) == ["0", "1", "2"]


def test_the_picture_of_the_readme_ends_with_all_claims_and_loads_nothing() -> None:
    text = FILE.read_text()
    last = [*ElementTree.fromstring(text).iter(_GROUP)][-1]
    shown = [element.text or "" for element in last]
    assert sum(line.startswith("✓") for line in shown) == len(new_claims())
    assert re.findall(r"(?:href|src|url)[=(]", text) == []
