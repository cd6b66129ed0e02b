"""Where the user's code calls: what is wrong is refused with file and line."""

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

PACKAGE = str(Path(__file__).parent) + os.sep


def caller() -> str:
    """`file:line` of the nearest frame outside of Grete; the file relative to the working directory if it is below it.

    Empty when there is no such frame, as in a C program that embeds Python.
    """
    frame = _outside()
    return f"{short(frame.f_code.co_filename)}:{frame.f_lineno}" if frame else ""


def names() -> Mapping[str, object]:
    """The local names of that frame: annotations of a function inside of a function may mean them."""
    frame = _outside()
    return dict(frame.f_locals) if frame else {}


def _outside() -> FrameType | None:
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001
    # Dataclasses compile their __init__ as "<string>"; who called it is meant.
    while frame and frame.f_code.co_filename.startswith((PACKAGE, "<string>")):
        frame = frame.f_back
    return frame


def short(name: str) -> str:
    """The file relative to the working directory if it is below it."""
    try:
        path = Path(name)
        return str(path.relative_to(Path.cwd())) if path.is_absolute() else name
    except (OSError, ValueError):
        return name


@contextmanager
def told(place: str) -> Iterator[None]:
    """Lets errors of a declaration begin with its place."""
    from grete.errors import ConfigError

    try:
        yield
    except ConfigError as error:
        if error.location or not place:
            raise
        cause = error.__cause__
        raise type(error)(str(error), setting=error.setting, origin=error.origin, location=place) from cause
