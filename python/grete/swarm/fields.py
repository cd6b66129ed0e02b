"""Fields of one JSON object that nobody vouches for."""

from collections.abc import Callable
from typing import Any, TypeVar

from grete.errors import GreteError

_COUNT = 2**63 - 1
_SECONDS = 1e12
_SHOWN = 80

_T = TypeVar("_T")


class ReportError(GreteError):
    """What came through a node's pipe is no report. It says what came."""


class Fields:
    """One JSON object and its place in the whole. Each of its methods raises ReportError, and nothing else."""

    def __init__(self, place: str, content: object) -> None:
        if not isinstance(content, dict):
            raise ReportError(f"{place} is {shown(content)}, not an object")
        self.place = place
        self.content: dict[str, Any] = content

    def _get(self, name: str) -> Any:
        if name not in self.content:
            raise ReportError(f"{self.place} has no {name}")
        return self.content[name]

    def _wrong(self, name: str, what: str) -> ReportError:
        return ReportError(f"{self.place}.{name} is {shown(self.content[name])}, not {what}")

    def count(self, name: str) -> int:
        """A whole number from 0 to 2**63 - 1."""
        value = self._get(name)
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= _COUNT:
            raise self._wrong(name, "a count")
        return value

    def seconds(self, name: str) -> float:
        """A finite number from 0 up."""
        value = self._get(name)
        # A comparison with NaN is false, and an int may be too large for a float.
        if not isinstance(value, (int, float)) or isinstance(value, bool) or not 0 <= value <= _SECONDS:
            raise self._wrong(name, "a number of seconds")
        return float(value)

    def flag(self, name: str) -> bool:
        value = self._get(name)
        if not isinstance(value, bool):
            raise self._wrong(name, "true or false")
        return value

    def text(self, name: str) -> str:
        value = self._get(name)
        if not _is_text(value):
            raise self._wrong(name, "text")
        return str(value)

    def known(self, name: str, read: Callable[[str], _T]) -> _T | None:
        """What `read` makes of the field, unless it is null. It must be there."""
        return None if self._get(name) is None else read(name)

    def inner(self, name: str, read: "Callable[[Fields], _T]") -> _T:
        return read(Fields(f"{self.place}.{name}", self._get(name)))

    def each(self, name: str, read: "Callable[[Fields], _T]") -> tuple[_T, ...]:
        listed = enumerate(self._list(name))
        return tuple(read(Fields(f"{self.place}.{name}[{index}]", content)) for index, content in listed)

    def texts(self, name: str) -> tuple[str, ...]:
        listed = self._list(name)
        if not all(_is_text(value) for value in listed):
            raise self._wrong(name, "a list of texts")
        return tuple(listed)

    def _list(self, name: str) -> list[Any]:
        value = self._get(name)
        if not isinstance(value, list):
            raise self._wrong(name, "a list")
        return value


def _is_text(value: object) -> bool:
    if not isinstance(value, str):
        return False
    try:
        value.encode()
    except UnicodeEncodeError:  # JSON can name half a character, which no stream can print
        return False
    return True


def shown(value: object) -> str:
    """What came, safe to print, cut."""
    try:
        text = str(value) if isinstance(value, Exception) else ascii(value)
    except ValueError:  # an int of more digits than Python prints
        text = f"an {type(value).__name__} too large to print"
    except RecursionError:
        text = f"a {type(value).__name__} too deep to print"
    return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."
