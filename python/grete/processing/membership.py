"""What a process is called in its groups when it is a static member of them (`group.instance.id`, KIP-345)."""

import re
import socket

from grete.errors import ConfigError

SETTING = "group.instance.id"
_PLACEHOLDER = re.compile(r"\{([^{}]*)\}")
_LEGAL = re.compile(r"[A-Za-z0-9._-]+")
_LONGEST = 249


def instance_id(template: str, node: int | None, origin: str = "code") -> str:
    """The id that the template makes for this host and, in a swarm, this node: "{hostname}-shop" -> "web1-shop-0".

    A node that is started again has the id of before, and with it, within the session timeout, its partitions. Raises
    ConfigError, which names the origin, for a placeholder that is none and for what brokers refuse.
    """

    def expand(found: re.Match[str]) -> str:
        if found[1] == "hostname":
            return socket.gethostname()
        hint = ": the nodes of a swarm have their number appended to it" if found[1] == "node" else ""
        raise _refused(template, origin, f"{found[0]} is no placeholder{hint}; there is {{hostname}}")

    made = _PLACEHOLDER.sub(expand, template)
    if node is not None:
        made = f"{made}-{node}"
    said = "" if made == template else f" (it comes to {made!r})"
    if not _LEGAL.fullmatch(made) or made in (".", ".."):
        raise _refused(template, origin, f"it may have letters, digits, dots, underscores and hyphens{said}")
    if len(made) > _LONGEST:
        raise _refused(template, origin, f"it may have {_LONGEST} characters, and has {len(made)}{said}")
    return made


def _refused(template: str, origin: str, why: str) -> ConfigError:
    return ConfigError(f"{SETTING} = {template!r} (from {origin}): {why}", setting=SETTING, origin=origin)
