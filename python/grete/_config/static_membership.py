"""`group.instance.id` of a process that is a static member of its groups (KIP-345)."""

import re

from grete.errors import ConfigError

SETTING = "group.instance.id"
_PLACEHOLDER = re.compile(r"\{([^{}]*)\}")
_LEGAL = re.compile(r"[A-Za-z0-9._-]+")
_MAX_LENGTH = 249


def instance_id(template: str, node: int | None, origin: str = "code") -> str:
    """Expands the template for this host and, in a swarm, this node: "{hostname}-shop" -> "web1-shop-0".

    A restarted node has the same id as before and so, within the session timeout, the same partitions. Raises
    ConfigError, which names the origin, for an unknown placeholder and for ids that brokers refuse.
    """

    def expand(found: re.Match[str]) -> str:
        if found[1] == "hostname":
            import socket

            return socket.gethostname()
        hint = ": the nodes of a swarm have their number appended to it" if found[1] == "node" else ""
        raise _config_error(template, origin, f"{found[0]} is no placeholder{hint}; there is {{hostname}}")

    expanded = _PLACEHOLDER.sub(expand, template)
    if node is not None:
        expanded = f"{expanded}-{node}"
    expansion = "" if expanded == template else f" (it expands to {expanded!r})"
    if not _LEGAL.fullmatch(expanded) or expanded in (".", ".."):
        raise _config_error(template, origin, f"it may have letters, digits, dots, underscores and hyphens{expansion}")
    if len(expanded) > _MAX_LENGTH:
        raise _config_error(
            template, origin, f"it may have {_MAX_LENGTH} characters, and has {len(expanded)}{expansion}"
        )
    return expanded


def _config_error(template: str, origin: str, why: str) -> ConfigError:
    return ConfigError(f"{SETTING} = {template!r} (from {origin}): {why}", setting=SETTING, origin=origin)
