"""Form of a command, its signature, and the check of a record. No input and output, no clock."""

import hashlib
import hmac
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from grete._config.parsers import MAX_WORKERS

VERSION = 1
SIGNATURE = "grete-signature"
"""Header with the signature."""
MAX_LIFETIME = 300_000
"""Longest time in milliseconds between the issue of a command and its end."""
_CLOCKS = 30_000
_MAX_BYTES = 8_192
_MAX_TEXT = 300
_KEPT = 10_000
# Signatures of other programs with the same secret are none of commands.
_CONTEXT = b"grete.commands/1\0"

ACTIONS: Mapping[str, frozenset[str]] = {
    "quiet": frozenset(),
    "stop": frozenset(),
    "restart": frozenset(),
    "dump_stacks": frozenset(),
    "pause": frozenset({"topic", "partition", "group"}),
    "resume": frozenset({"topic", "partition", "group"}),
    "seek": frozenset({"topic", "partition", "group", "offset"}),
    "scale": frozenset({"workers"}),
}
"""Arguments of each action. `partition` None: all partitions of the topic; `group` None: the only group."""


@dataclass(frozen=True, slots=True)
class Record:
    """Record of `grete.commands`. `signature` None: it has none."""

    value: bytes
    signature: bytes | None = None


@dataclass(frozen=True, slots=True)
class Rules:
    """Identity of the process that checks, and its secret; `secret` "": commands need no signature."""

    target: str
    secret: str = ""


@dataclass(frozen=True, slots=True)
class Command:
    """Command to one process. Times are milliseconds since 1970."""

    id: str
    target: str
    action: str
    by: str
    """User who has asked for it, as `grete web` knows the user."""
    issued: int
    expires: int
    arguments: Mapping[str, Any] = field(default_factory=dict)

    def encode(self) -> bytes:
        """Returns the value of its record."""
        content = {
            "v": VERSION,
            "id": self.id,
            "target": self.target,
            "action": self.action,
            "by": self.by,
            "issued": self.issued,
            "expires": self.expires,
            "arguments": dict(self.arguments),
        }
        return json.dumps(content, sort_keys=True, separators=(",", ":")).encode()


class RefusedError(Exception):
    """The record is no command for this process. `command` None: it cannot be read, or its sender is unknown."""

    def __init__(self, reason: str, command: Command | None = None) -> None:
        super().__init__(reason)
        self.command = command


def sign(secret: str, value: bytes) -> bytes:
    """Returns the signature of a value, in hexadecimal."""
    return hmac.new(secret.encode(), _CONTEXT + value, hashlib.sha256).hexdigest().encode()


def verify(now: int, record: Record, seen: Mapping[str, int], rules: Rules) -> Command:
    """Returns the command of a record. Raises RefusedError, and nothing else.

    `now`: milliseconds since 1970. `seen`: ids of the commands that came before.
    """
    if len(record.value) > _MAX_BYTES:
        raise RefusedError(f"it has more than {_MAX_BYTES} bytes")
    if rules.secret:
        if record.signature is None:
            raise RefusedError("it is not signed")
        # Before anything of the value is read.
        if not hmac.compare_digest(sign(rules.secret, record.value), record.signature):
            raise RefusedError("its signature is of another secret, or of another command")
    command = _parse(record.value)
    if command.target != rules.target:
        raise RefusedError("it is for another process", command)
    if command.id in seen:
        raise RefusedError("it came before", command)
    if not 0 < command.expires - command.issued <= MAX_LIFETIME:
        raise RefusedError(f"it is to be valid for longer than {MAX_LIFETIME // 1000} s", command)
    if now >= command.expires:
        late = (now - command.expires) / 1000
        raise RefusedError(f"it has expired {late:.1f} s ago, by the clock of this process", command)
    if command.issued - now > _CLOCKS:
        ahead = (command.issued - now) / 1000
        raise RefusedError(f"it was issued {ahead:.0f} s in the future, by the clock of this process", command)
    if len(seen) >= _KEPT and sum(expires > now for expires in seen.values()) >= _KEPT:
        raise RefusedError("too many commands came within a short time", command)
    return command


def remember(seen: dict[str, int], command: Command, now: int) -> None:
    """Adds the command to those that came. Ids of expired ones are forgotten: their expiry refuses them."""
    for name in [name for name, expires in seen.items() if expires <= now]:
        del seen[name]
    seen[command.id] = command.expires


def _parse(value: bytes) -> Command:
    try:
        content: Any = json.loads(value)
    except (ValueError, RecursionError):
        raise RefusedError("it is no JSON") from None
    if not isinstance(content, dict) or content.get("v") != VERSION:
        raise RefusedError(f"it is no command of version {VERSION}")
    texts: list[Any] = [content.get(name) for name in ("id", "target", "action", "by")]
    times: list[Any] = [content.get(name) for name in ("issued", "expires")]
    arguments = content.get("arguments")
    if not (
        all(isinstance(one, str) and 0 < len(one) <= _MAX_TEXT for one in texts)
        and all(isinstance(one, int) and not isinstance(one, bool) and 0 <= one < 2**62 for one in times)
        and isinstance(arguments, dict)
    ):
        raise RefusedError("a field of it is missing, or of another type")
    command = Command(texts[0], texts[1], texts[2], texts[3], times[0], times[1], arguments)
    _check_arguments(command)
    return command


def _check_arguments(command: Command) -> None:
    known = ACTIONS.get(command.action)
    if known is None:
        raise RefusedError("its action is unknown to this version", command)
    given = command.arguments
    names = ("topic", "partition", "group", "offset", "workers")
    topic, partition, group, offset, workers = (given.get(name) for name in names)
    is_valid = (
        given.keys() <= known
        and ("topic" not in known or _is_name(topic))
        and (partition is None or (type(partition) is int and 0 <= partition < 2**31))
        and (group is None or _is_name(group))
        and ("offset" not in known or (partition is not None and _is_offset(offset)))
        and ("workers" not in known or (type(workers) is int and 1 <= workers <= MAX_WORKERS))
    )
    if not is_valid:
        raise RefusedError(f"its arguments are none of {command.action}", command)


def _is_name(value: object) -> bool:
    return isinstance(value, str) and 0 < len(value) <= _MAX_TEXT


def _is_offset(value: object) -> bool:
    return value in ("earliest", "latest") if isinstance(value, str) else type(value) is int and 0 <= value < 2**63
