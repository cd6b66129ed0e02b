"""Signatures that show each setting with its type and default, for `help` and `inspect.signature`."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from grete._config.parsers import Setting


def show_settings(function: Callable[..., Any], types: Mapping[str, Any], table: Mapping[str, Setting]) -> None:
    """Gives `function` a signature with a keyword for each setting, instead of `**settings`.

    `types`: the type of each setting. `table`: their defaults; a setting that is not in the table has None.
    """
    signature = inspect.signature(function)
    fixed = [one for one in signature.parameters.values() if one.kind is not inspect.Parameter.VAR_KEYWORD]
    shown = [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=table[name].default if name in table else None,
            annotation=annotation,
        )
        for name, annotation in types.items()
    ]
    setattr(function, "__signature__", signature.replace(parameters=[*fixed, *shown]))  # noqa: B010
