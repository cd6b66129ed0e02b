"""Where the user's code calls: what is wrong is refused with file and line."""

import os
import sys
from pathlib import Path

_PACKAGE = str(Path(__file__).parent) + os.sep


def caller() -> str:
    """`file:line` of the nearest frame outside of Grete; the file relative to the working directory if it is below it.

    Empty when there is no such frame, as in a C program that embeds Python.
    """
    frame = sys._getframe(1)  # noqa: SLF001
    while frame.f_code.co_filename.startswith((_PACKAGE, "<frozen ", "<string>")):
        # Dataclasses compile their __init__ from "<string>"; it is called by a frame that counts.
        if frame.f_back is None:
            return ""
        frame = frame.f_back
    return f"{_short(frame.f_code.co_filename)}:{frame.f_lineno}"


def _short(name: str) -> str:
    try:
        path = Path(name)
        return str(path.relative_to(Path.cwd())) if path.is_absolute() else name
    except (OSError, ValueError):
        return name
