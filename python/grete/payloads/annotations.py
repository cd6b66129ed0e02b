"""Types as they stand in annotations: their names for errors, and what is inside of `Optional` and `Annotated`."""

import functools
import types
import typing
from typing import Annotated, Any


def unwrap_optional(annotation: Any) -> Any:
    """Returns `Order` for `Order | None` and for `Annotated[Order, ...]`; anything else unchanged."""
    if typing.get_origin(annotation) is Annotated:
        return unwrap_optional(annotation.__origin__)
    if typing.get_origin(annotation) not in (typing.Union, types.UnionType):
        return annotation
    rest = tuple(one for one in typing.get_args(annotation) if one is not type(None))
    if not rest:
        return type(None)
    return unwrap_optional(rest[0]) if len(rest) == 1 else functools.reduce(lambda left, right: left | right, rest)


def type_name(annotation: Any) -> str:
    """Returns a type in the notation that people write."""
    if isinstance(annotation, type) and typing.get_origin(annotation) is None:
        return annotation.__qualname__
    return str(annotation).removeprefix("typing.")
