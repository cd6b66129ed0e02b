"""`python -m tests.unit.offline_command JOURNAL WORDS...`: a command whose clients have no broker, for output tests.

The consumer has one batch of RECORDS, or nothing forever from topic "empty"; the admin client has topics. Each change
that they are asked for is a line in the file JOURNAL.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any, Self

from grete import _native
from grete._cli import main, session
from grete._cli.records import consume
from grete._native import Messages
from grete.client import TopicDescription
from tests.unit.record_batches import Record, batch

# More than a pipe holds, and than the limit of file sizes that tests set.
RECORDS = [Record(offset, b"%04d" % offset + b"x" * 95, None, 5) for offset in range(3000)]
OUTPUT = b"".join(record.value + b"\n" for record in RECORDS if record.value is not None)


class Client:
    """What the clients have in common."""

    journal = Path()

    def __init__(self, settings: dict[str, Any]) -> None:
        assert settings

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.note("closed")

    def note(self, text: str) -> None:
        """Writes a line into the journal."""
        with self.journal.open("a") as journal:
            journal.write(f"{text}\n")


class Consumer(Client):
    """Has the records of any group's topic."""

    def partitions(self, topic: str) -> list[int]:
        assert topic
        return [0]

    def subscribe(self, topics: list[str]) -> None:
        self.left = 0 if topics == ["empty"] else 1
        self.note("subscribed")

    def poll(self, timeout: float, max_messages: int) -> Messages:
        if not self.left:
            time.sleep(min(timeout, 0.01))
            return Messages.empty()
        self.left -= 1
        return _native._testing_decode(batch(RECORDS), "orders", 0)[:max_messages]

    def commit(self, messages: Messages) -> None:
        self.note(f"committed {messages.next_offset}")


class Admin(Client):
    """Has topics."""

    def all_topics(self, *, timeout: float) -> list[TopicDescription]:
        assert timeout > 0
        return [TopicDescription(f"topic-{number}", None, False, ()) for number in range(3000)]

    def delete_topics(self, topics: Any, *, timeout: float) -> None:
        assert timeout > 0
        self.note(f"deleted {sorted(topics)}")

    def describe_topics(self, topics: tuple[str, ...], *, timeout: float) -> dict[str, TopicDescription]:
        assert timeout > 0
        return {name: TopicDescription(name, None, False, ()) for name in topics}


if __name__ == "__main__":
    Client.journal = Path(sys.argv[1])
    vars(consume)["Consumer"] = Consumer
    vars(session)["Admin"] = Admin
    main(sys.argv[2:], prog_name="grete")
