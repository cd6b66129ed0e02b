"""Writer of commands to processes."""

import os
import time
from collections.abc import Mapping
from typing import Any

from grete._processing.commands.receiver import audit_record
from grete._processing.commands.verification import SIGNATURE, Command, sign
from grete._web.kafka.gateway import TIMEOUT, Gateway
from grete._web.topics import AUDIT, COMMANDS
from grete.client import Producer

LIFETIME = 60_000
"""Milliseconds for which a command is valid."""
_PRODUCER = {"acks": "all", "max.block.ms": "10000", "delivery.timeout.ms": "10000", "request.timeout.ms": "5000"}


class CommandSender:
    """Commands of this web process. `secret` "": they are not signed."""

    def __init__(self, gateway: Gateway, secret: str) -> None:
        self._gateway = gateway
        self._secret = secret

    @property
    def is_signing(self) -> bool:
        """Whether commands are signed."""
        return bool(self._secret)

    def send(self, process: Mapping[str, Any], action: str, arguments: Mapping[str, Any], by: str) -> Command:
        """Writes a command and its entry of the audit, the entry first: no command is without one.

        `process`: id, app, host and so on. Raises GreteError when brokers do not take them.
        """
        now = int(time.time() * 1000)
        command = Command(os.urandom(16).hex(), process["id"], action, by, now, now + LIFETIME, arguments)
        value, key = command.encode(), command.target.encode()
        headers = [(SIGNATURE, sign(self._secret, value))] if self._secret else []
        with Producer(self._gateway.settings | _PRODUCER) as producer:
            entry = audit_record(now, command, process, "asked", "the command was written")
            producer.produce_sync(AUDIT, entry, key=key, timeout=TIMEOUT)
            producer.produce_sync(COMMANDS, value, key=key, headers=headers, timeout=TIMEOUT)
        return command
