"""Notices of handlers that hang."""

import logging
from dataclasses import dataclass, field
from typing import Any

import pytest

from grete._processing.events.log_events import LogEventHandler


@dataclass
class FakeNotice:
    name: str
    level: int = logging.WARNING
    message: str = "it hangs"
    fields: dict[str, str] = field(default_factory=lambda: {"topic": "orders", "partition": "3", "slot": "7"})
    time: float = 1_700_000_000.5


class FakeEngine:
    def stack_of(self, topic: str, partition: int, slot: int) -> str:
        return f"stack of {topic}[{partition}] slot {slot}"


@pytest.mark.parametrize("name", ["consumer.stalled", "consumer.timeout", "consumer.abandoned", "broker.lost"])
def test_a_handler_that_hangs_is_logged_with_its_stack(name: str, caplog: pytest.LogCaptureFixture) -> None:
    teller: Any = LogEventHandler()
    teller([FakeNotice(name)])
    teller.engine = FakeEngine()
    teller([FakeNotice(name), FakeNotice(name, level=logging.DEBUG)])
    before, after = caplog.records
    assert before.getMessage() == "it hangs"
    wanted = "it hangs\nstack of orders[3] slot 7" if name.startswith("consumer.") else "it hangs"
    assert after.getMessage() == wanted
    assert after.__dict__["event"] == name
    assert (after.created, after.msecs) == (1_700_000_000.5, 500.0)
    assert after.__dict__["topic"] == "orders"
