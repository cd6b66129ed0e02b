"""Errors in log records: the class, a text of one line, and a traceback without Grete's own frames."""

from types import TracebackType
from typing import TypeAlias

from grete._native import one_line
from grete._process.callsite import PACKAGE
from grete.errors import DecodeError, GreteError

ExcInfo: TypeAlias = tuple[type[BaseException], BaseException, TracebackType | None]

# Maximum characters of an error's text that is kept: the text may hold a whole record.
MAX_TEXT = 16_384
# Maximum characters of an error's text in a log line.
_MAX_LINE = 500
# Modules whose errors say in their text all that is wrong with a value: a traceback shows only the library's frames.
_DECODING_LIBRARIES = ("msgspec", "pydantic_core", "json", "fastavro", "jsonschema", "google")
# Beginning of the line with which pydantic ends each of its errors.
_LINK = "For further information visit https://errors.pydantic.dev/"


def class_name(error: BaseException) -> str:
    """Returns the name of the error's class, with its module unless it is a built-in."""
    kind = type(error)
    return _encodable(kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}")


def error_text(error: BaseException) -> str:
    """Returns the error's text, which can be encoded as UTF-8: lone surrogates are escaped. Its `__str__` may raise.

    pydantic's lines with links are left out, because they fill log lines and headers of dead letters.
    """
    try:
        text = str(error)
        if _LINK in text:
            text = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith(_LINK))
        return _encodable(truncate(text, MAX_TEXT))
    except Exception as another:
        return f"<its text is not available: {type(another).__name__}>"


def _encodable(text: str) -> str:
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


def truncate(text: str, max_length: int) -> str:
    """Truncates a text to `max_length` characters, with an ellipsis at its end."""
    return text if len(text) <= max_length else f"{text[: max_length - 1]}…"


def summarize(error: BaseException) -> str:
    """Returns class and text of an error on one line, at most 500 characters of it."""
    text = error_text(error)
    if isinstance(error, DecodeError):
        # The line begins with the record. The text would repeat it.
        text = text.removeprefix(f"{error.topic}[{error.partition}] offset {error.offset} ")
    lines = (line.strip() for line in text.splitlines())
    line = " ".join(line for line in lines if line)
    return truncate(one_line(f"{class_name(error)}: {line}" if line else class_name(error)), _MAX_LINE)


def trimmed_exc_info(error: BaseException) -> ExcInfo | None:
    """Returns `exc_info` of an error without Grete's own frames; None if the error's text says everything.

    A GreteError with no other frames and no cause says in its text what is wrong. Another error with no other frames
    keeps them all: it is Grete's own defect, and its place matters. A DecodeError repeats the text of its cause, so the
    cause is shown in its place, and not even that if it comes from a decoding library.
    """
    if isinstance(error, DecodeError):
        cause = error.__cause__
        own = _without_own_frames(cause.__traceback__) if cause is not None else None
        if cause is None or own is None or type(cause).__module__.partition(".")[0] in _DECODING_LIBRARIES:
            return None
        return type(cause), cause, own
    own = _without_own_frames(error.__traceback__)
    is_alone = error.__cause__ is None and (error.__context__ is None or error.__suppress_context__)
    if own is None and is_alone and isinstance(error, GreteError):
        return None
    return type(error), error, own or error.__traceback__


def _without_own_frames(traceback: TracebackType | None) -> TracebackType | None:
    """Returns a copy of the traceback without frames of Grete's files. The original, which others may hold, stays."""
    kept: list[TracebackType] = []
    while traceback is not None:
        if not traceback.tb_frame.f_code.co_filename.startswith(PACKAGE):
            kept.append(traceback)
        traceback = traceback.tb_next
    result: TracebackType | None = None
    for one in reversed(kept):
        result = TracebackType(result, one.tb_frame, one.tb_lasti, one.tb_lineno)
    return result
