"""Handlers whose annotations are strings, as this import makes them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import grete


@dataclass
class Order:
    id: int


def batch(messages: grete.Messages) -> None:
    """Nothing."""


async def later_one(message: grete.Message) -> None:
    """Nothing."""


def payload(order: Order) -> None:
    """Nothing."""


def annotated(order: Annotated[Order, "as billed"] | None) -> None:
    """Nothing."""
