"""Suggestions for misspelled names, and classes that refuse unknown keyword arguments with such a suggestion."""

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from grete._process import callsite
from grete.errors import ConfigError

T = TypeVar("T")


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Returns `; did you mean "x"?`, or an empty text if no known name is similar."""
    import difflib

    near = difflib.get_close_matches(name, list(known), n=1)
    return f'; did you mean "{near[0]}"?' if near else ""


def checked_keywords(title: str, hints: Mapping[str, str] | Callable[[str], str]) -> Callable[[type[T]], type[T]]:
    """Returns a class decorator: an unknown keyword argument raises ConfigError, which names the right argument.

    `title`: the class in the error. `hints`: what to write instead of an argument that users expect from elsewhere, or
    a function that returns this for a name ("": nothing).
    """

    def decorate(cls: type[T]) -> type[T]:
        name = "__new__" if "__new__" in cls.__dict__ else "__init__"
        inner: Any = getattr(cls, name)
        known = [parameter.name for parameter in inspect.signature(inner).parameters.values()][1:]

        @functools.wraps(inner)
        def call(first: Any, /, *args: Any, **given: Any) -> Any:
            for argument in given:
                if argument not in known:
                    hint = hints(argument) if callable(hints) else hints.get(argument, "")
                    hint = f": {hint}" if hint else did_you_mean(argument, known)
                    raise ConfigError(
                        f'{title} has no argument "{argument}"{hint}',
                        setting=argument,
                        location=callsite.caller_location(),
                    )
            return inner(first, *args, **given)

        setattr(cls, name, call)
        return cls

    return decorate
