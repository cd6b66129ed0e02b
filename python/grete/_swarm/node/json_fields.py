"""Typed access to the fields of an untrusted JSON object."""

import functools
from collections.abc import Callable
from types import NoneType
from typing import Any, TypeVar, get_args, get_type_hints

from grete.errors import GreteError

_MAX_COUNT = 2**63 - 1
_MAX_SECONDS = 1e12
_MAX_QUOTED = 80

_T = TypeVar("_T")


class ReportError(GreteError):
    """Invalid data from a node's pipe. The text quotes it."""


class JsonFields:
    """One JSON object and its path in the document. Each method raises ReportError, and nothing else."""

    def __init__(self, path: str, content: object) -> None:
        if not isinstance(content, dict):
            raise ReportError(f"{path} is {quote(content)}, not an object")
        self.path = path
        self.content: dict[str, Any] = content

    def _get(self, name: str) -> Any:
        if name not in self.content:
            raise ReportError(f"{self.path} has no {name}")
        return self.content[name]

    def _type_error(self, name: str, what: str) -> ReportError:
        return ReportError(f"{self.path}.{name} is {quote(self.content[name])}, not {what}")

    def count(self, name: str) -> int:
        """Returns an integer from 0 to 2**63 - 1."""
        value = self._get(name)
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= _MAX_COUNT:
            raise self._type_error(name, "a count")
        return value

    def seconds(self, name: str) -> float:
        """Returns a finite number from 0 to 1e12."""
        value = self._get(name)
        # A comparison with NaN is false, and an int may be too large for a float.
        if not isinstance(value, (int, float)) or isinstance(value, bool) or not 0 <= value <= _MAX_SECONDS:
            raise self._type_error(name, "a number of seconds")
        return float(value)

    def boolean(self, name: str) -> bool:
        value = self._get(name)
        if not isinstance(value, bool):
            raise self._type_error(name, "true or false")
        return value

    def string(self, name: str) -> str:
        value = self._get(name)
        if not _is_text(value):
            raise self._type_error(name, "text")
        return str(value)

    def optional(self, name: str, read: Callable[[str], _T]) -> _T | None:
        """Returns `read(name)`, or None for null. A missing field is an error."""
        return None if self._get(name) is None else read(name)

    def nested(self, name: str, kind: type[_T]) -> _T:
        return JsonFields(f"{self.path}.{name}", self._get(name)).read(kind)

    def items(self, name: str, kind: type[_T]) -> tuple[_T, ...]:
        listed = enumerate(self._list(name))
        return tuple(JsonFields(f"{self.path}.{name}[{index}]", content).read(kind) for index, content in listed)

    def strings(self, name: str) -> tuple[str, ...]:
        listed = self._list(name)
        if not all(_is_text(value) for value in listed):
            raise self._type_error(name, "a list of texts")
        return tuple(listed)

    def read(self, kind: type[_T]) -> _T:
        """Returns a dataclass whose fields are read by their types: an int is a count, a float a number of seconds."""
        return kind(**{name: read(self, name) for name, read in _readers(kind)})  # type: ignore[arg-type]

    def _list(self, name: str) -> list[Any]:
        value = self._get(name)
        if not isinstance(value, list):
            raise self._type_error(name, "a list")
        return value


_SCALARS: dict[object, Callable[[JsonFields, str], object]] = {
    int: JsonFields.count,
    float: JsonFields.seconds,
    bool: JsonFields.boolean,
    str: JsonFields.string,
}


@functools.cache
def _readers(kind: type) -> list[tuple[str, Callable[[JsonFields, str], object]]]:
    """Returns the names of a dataclass' fields, and how each is read."""
    return [(name, _reader(of)) for name, of in get_type_hints(kind).items()]


def _reader(kind: Any) -> Callable[[JsonFields, str], object]:
    if kind in _SCALARS:
        return _SCALARS[kind]
    inner, *rest = get_args(kind) or (None,)
    if NoneType in rest:
        read = _reader(inner)
        return lambda fields, name: fields.optional(name, functools.partial(read, fields))
    if inner is str:
        return JsonFields.strings
    return (lambda fields, name: fields.items(name, inner)) if inner else lambda fields, name: fields.nested(name, kind)


def _is_text(value: object) -> bool:
    if not isinstance(value, str):
        return False
    try:
        value.encode()
    except UnicodeEncodeError:  # JSON can contain a lone surrogate, which cannot be encoded
        return False
    return True


def quote(value: object) -> str:
    """Returns a printable, truncated representation of a value."""
    try:
        text = str(value) if isinstance(value, Exception) else ascii(value)
    except ValueError:  # an int with more digits than Python's limit
        text = f"an {type(value).__name__} too large to print"
    except RecursionError:
        text = f"a {type(value).__name__} too deep to print"
    return text if len(text) <= _MAX_QUOTED else text[: _MAX_QUOTED - 3] + "..."
