"""Shapes that conversions do not know: a NamedTuple is a record of Avro, and a key that a TypedDict may lack is null.

The conversion between types and plain values has a list for a NamedTuple, and takes no None for such a key. The
functions here change the plain values of one type, found once.
"""

import types
import typing
from collections.abc import Callable, Mapping
from typing import Annotated, Any

from grete.payloads.avro_types.derive import fields_of

Reshape = Callable[[Any], Any]

_LISTS = (list, set, frozenset, tuple)


def reading(wanted: Any) -> Reshape | None:
    """Returns the function that changes decoded dicts into what the conversion to a type takes; None: nothing to do."""
    return _Shapes(_read_named_tuple, drops_missing=True).of(wanted)


def writing(wanted: Any) -> Reshape | None:
    """Returns the function that changes the plain values of a type into the dicts that are encoded; None: nothing to
    do.
    """
    return _Shapes(_write_named_tuple, drops_missing=False).of(wanted)


def is_named_tuple(wanted: Any) -> bool:
    """Returns whether a type is a NamedTuple."""
    return isinstance(wanted, type) and issubclass(wanted, tuple) and hasattr(wanted, "_field_defaults")


def _read_named_tuple(wanted: Any) -> Reshape:
    names, defaults = wanted._fields, wanted._field_defaults

    def read(value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        # A schema may lack a field that has a default; without one, the conversion says what is missing.
        return [value[name] if name in value else defaults[name] for name in names if name in value or name in defaults]

    return read


def _write_named_tuple(wanted: Any) -> Reshape:
    names = wanted._fields

    def write(value: Any) -> Any:
        return dict(zip(names, value, strict=True)) if isinstance(value, (list, tuple)) else value

    return write


class _Shapes:
    def __init__(self, named_tuple: Callable[[Any], Reshape], *, drops_missing: bool) -> None:
        self._named_tuple = named_tuple
        self._drops_missing = drops_missing
        self._open: dict[Any, list[Reshape | None]] = {}

    def of(self, wanted: Any) -> Reshape | None:
        origin, arguments = typing.get_origin(wanted), typing.get_args(wanted)
        if origin is Annotated or origin in (typing.Required, typing.NotRequired):
            return self.of(arguments[0])
        if isinstance(wanted, typing.NewType):
            return self.of(wanted.__supertype__)
        if origin in (typing.Union, types.UnionType):
            # Values of several classes cannot be distinguished here, and the conversion has the error.
            found = [one for one in map(self.of, arguments) if one is not None]
            return found[0] if len(found) == 1 else None
        if origin in _LISTS and arguments:
            return _each(self.of(arguments[0]))
        if origin in (dict, Mapping) and len(arguments) == 2:
            return _each_value(self.of(arguments[1]))
        return self._record(origin or wanted) if isinstance(origin or wanted, type) else None

    def _record(self, wanted: Any) -> Reshape | None:
        if wanted in self._open:
            cell = self._open[wanted]  # a type within itself
            return lambda value: value if cell[0] is None else cell[0](value)
        fields = fields_of(wanted)
        if fields is None:
            return None
        cell = self._open[wanted] = [None]
        inside = {field.name: shape for field in fields if (shape := self.of(field.annotation)) is not None}
        missing = _missing_when_null(wanted) if self._drops_missing else frozenset()
        named_tuple = self._named_tuple(wanted) if is_named_tuple(wanted) else None
        if inside or missing or named_tuple is not None:
            cell[0] = _of_fields(inside, missing, named_tuple, reads=self._drops_missing)
        del self._open[wanted]
        return cell[0]


def _missing_when_null(wanted: Any) -> frozenset[str]:
    """Returns the keys that a TypedDict may lack, and that are not None."""
    if not typing.is_typeddict(wanted):
        return frozenset()
    hints = typing.get_type_hints(wanted)
    optional: frozenset[str] = getattr(wanted, "__optional_keys__", frozenset())
    return frozenset(
        name for name in optional if hints[name] is not None and type(None) not in typing.get_args(hints[name])
    )


def _of_fields(
    inside: Mapping[str, Reshape], missing: frozenset[str], named_tuple: Reshape | None, *, reads: bool
) -> Reshape:
    def reshape(value: Any) -> Any:
        if named_tuple is not None and not reads:
            value = named_tuple(value)
        if not isinstance(value, dict):
            return value
        value = {
            name: inside[name](one) if name in inside and one is not None else one
            for name, one in value.items()
            if one is not None or name not in missing
        }
        return named_tuple(value) if named_tuple is not None and reads else value

    return reshape


def _each(shape: Reshape | None) -> Reshape | None:
    if shape is None:
        return None
    return lambda value: [shape(one) for one in value] if isinstance(value, (list, tuple)) else value


def _each_value(shape: Reshape | None) -> Reshape | None:
    if shape is None:
        return None
    return lambda value: {key: shape(one) for key, one in value.items()} if isinstance(value, dict) else value
