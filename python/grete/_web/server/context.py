"""Input of a page: the request, and the parts of the web process."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from starlette.exceptions import HTTPException

from grete._native import Message
from grete._web.collector import Collector
from grete._web.kafka.commands import CommandSender
from grete._web.kafka.gateway import Gateway
from grete._web.kafka.letters import Replays
from grete._web.kafka.schemas import SchemaDecoder
from grete._web.security.access import User
from grete._web.security.masking import MaskedRecord, Masks
from grete._web.state.store import Store


@dataclass(frozen=True, slots=True)
class Parts:
    """Parts of the web process, which all requests share."""

    store: Store
    gateway: Gateway
    collector: Collector
    replays: Replays
    commands: CommandSender
    masks: Masks = field(default_factory=Masks)
    schemas: SchemaDecoder | None = None

    def readable(self, message: Message) -> MaskedRecord:
        """Returns key, value and headers for a page: decoded with their schemas, and masked."""
        key = self.schemas.as_json(message, "key") if self.schemas is not None else None
        value = self.schemas.as_json(message, "value") if self.schemas is not None else None
        return self.masks.apply(message, message.key if key is None else key, message.value if value is None else value)


@dataclass(frozen=True, slots=True)
class Context:
    """One request. `now`: milliseconds since 1970."""

    parts: Parts
    user: User
    path: Mapping[str, str] = field(default_factory=dict)
    query: Mapping[str, str] = field(default_factory=dict)
    form: Mapping[str, str] = field(default_factory=dict)
    now: int = field(default_factory=lambda: int(time.time() * 1000))

    @property
    def store(self) -> Store:
        """State of all processes."""
        return self.parts.store

    @property
    def gateway(self) -> Gateway:
        """Requests to brokers."""
        return self.parts.gateway

    def require(self, role: str) -> None:
        """Refuses the request of a user without this role."""
        if not self.user.may(role):
            raise HTTPException(403, f"your role is {self.user.role}, and this needs the role {role}")

    def number(self, name: str, *, least: int = 0, most: int = 2**63 - 1) -> int | None:
        """Returns a whole number of the query or of the path; None: it is not given. Refuses anything else."""
        return whole_number(self.query.get(name) or self.path.get(name), name, least, most)

    def form_number(self, name: str, *, least: int = 0, most: int = 2**63 - 1) -> int | None:
        """Returns a whole number of the form, like `number`."""
        return whole_number(self.form.get(name), name, least, most)


def whole_number(text: str | None, name: str, least: int, most: int) -> int | None:
    """Returns the number in a text; None: there is no text. Refuses anything else."""
    if text is None or not text.strip():
        return None
    text = text.strip()
    if not (text.isascii() and text.isdigit() and len(text) < 20) or not least <= int(text) <= most:
        raise HTTPException(400, f"{name} is a whole number from {least} to {most}")
    return int(text)


Data = dict[str, Any]
"""Data of a page, which is also its JSON."""
