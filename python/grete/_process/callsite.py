"""Location of the user's call, so that errors in declarations name file and line."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from types import FrameType

PACKAGE = str(Path(__file__).parents[1]) + os.sep


def caller_location() -> str:
    """Returns `file:line` of the nearest frame outside of Grete. The file is relative to the working directory if it is
    below it.

    Empty when there is no such frame, for example in a C program that embeds Python.
    """
    frame = _user_frame()
    return f"{relative_path(frame.f_code.co_filename)}:{frame.f_lineno}" if frame else ""


def caller_locals() -> Mapping[str, object]:
    """Returns the local names of that frame: annotations of a function inside a function may refer to them."""
    frame = _user_frame()
    return dict(frame.f_locals) if frame else {}


def _user_frame() -> FrameType | None:
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001
    # Dataclasses compile their __init__ as "<string>"; the frame of its caller is wanted.
    while frame and frame.f_code.co_filename.startswith((PACKAGE, "<string>")):
        frame = frame.f_back
    return frame


def relative_path(name: str) -> str:
    """Returns the file relative to the working directory if it is below it."""
    try:
        path = Path(name)
        return str(path.relative_to(Path.cwd())) if path.is_absolute() else name
    except (OSError, ValueError):
        return name
