"""Settings given at one place after the other."""

from collections.abc import Iterator
from typing import Any

Layers = tuple[dict[str, str], dict[str, Any], dict[str, Any]]
# What wins then, where `grete.toml` says 2.
WINNERS = [(2, "grete.toml"), (3, "environment variable {variable}"), (4, "code"), (6, "command line")]


def layers_in_order(variable: str, name: str) -> Iterator[Layers]:
    """(environment, code, command line): none, the first, the first two, all three. The file stands below them."""
    given: Layers = ({variable: "3"}, {name: 4}, {name: 6})
    for count in range(4):
        environment, code, command_line = (one if at < count else {} for at, one in enumerate(given))
        yield environment, code, command_line


def winners(variable: str) -> list[tuple[int, str]]:
    """The values and origins that these lead to."""
    return [(value, origin.format(variable=variable)) for value, origin in WINNERS]
