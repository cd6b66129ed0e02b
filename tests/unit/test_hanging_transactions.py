"""Which transactions hang: what the coordinators say decides."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from typing import Any

import pytest

from grete.client import PartitionDescription, TopicDescription
from grete.client.transaction_admin import TransactionAdmin
from grete.errors import KafkaError

HOUR_MS = 3_600_000


class Native:
    """Cluster with one partition, whose log has an open transaction of producer 7 from offset 40 on."""

    def __init__(self, written_ms: int) -> None:
        self.written_ms = written_ms
        self.listed: list[tuple[str, int, str, int]] = []
        self.described: tuple[str, int, list[tuple[str, int]]] | None = ("Ongoing", 7, [("orders", 0)])
        self.aborted: list[tuple[Any, Any]] = []

    def describe_producers(self, partitions: list[tuple[str, int]], timeout: object) -> list[list[Any]]:
        return [[(7, 3, 9, self.written_ms, -1, 40), (8, 0, 2, self.written_ms, -1, None)] for _ in partitions]

    def transactions(self, states: list[str], producer_ids: list[int], timeout: object) -> tuple[Any, None]:
        assert producer_ids == [7]
        return self.listed, None

    def describe_transactions(self, ids: list[str], timeout: object) -> list[Any]:
        if self.described is None:
            raise KafkaError("pay", code=105, name="TRANSACTIONAL_ID_NOT_FOUND")
        state, producer_id, partitions = self.described
        return [(name, 1, state, 60_000, 5, producer_id, 3, partitions) for name in ids]

    def abort_transaction(self, partition: object, producer: object, timeout: object) -> None:
        self.aborted.append((partition, producer))


class Cluster(TransactionAdmin):
    """The methods of Admin over `Native`."""

    def __init__(self, native: Native) -> None:
        self.native = native

    @contextlib.contextmanager
    def _logged(self) -> Iterator[Any]:
        yield self.native

    def all_topics(self, *, timeout: float | None = None) -> list[TopicDescription]:
        partition = PartitionDescription(0, 1, 0, (1,), (1,))
        return [TopicDescription(name, None, False, (partition,)) for name in ("orders", "others")]


def now_ms() -> int:
    return round(time.time() * 1000)


@pytest.mark.parametrize(
    ("listed", "described", "hangs"),
    [
        ([], None, True),
        ([("pay", 7, "Ongoing", 1)], None, True),
        ([("pay", 7, "Ongoing", 1)], ("Ongoing", 7, [("orders", 0)]), False),
        ([("pay", 7, "PrepareAbort", 1)], ("PrepareAbort", 7, [("orders", 0)]), False),
        ([("pay", 7, "Ongoing", 1)], ("Ongoing", 7, [("orders", 1)]), True),
        ([("pay", 7, "CompleteAbort", 1)], ("CompleteAbort", 7, []), True),
        ([("pay", 7, "Ongoing", 1)], ("Ongoing", 9, [("orders", 0)]), True),
    ],
    ids=["unknown", "expired-meanwhile", "open", "being-ended", "other-partition", "ended", "other-producer"],
)
def test_a_transaction_hangs_if_its_coordinator_does_not_end_it(listed: Any, described: Any, hangs: bool) -> None:
    native = Native(now_ms() - HOUR_MS)
    native.listed = listed
    native.described = described
    found = Cluster(native).hanging_transactions(["orders"])
    assert [(one.topic, one.partition, one.producer.transaction_start) for one in found] == (
        [("orders", 0, 40)] if hangs else []
    )
    assert [one.transactional_id for one in found] == ([listed[0][0] if listed else None] if hangs else [])


def test_a_transaction_that_was_written_to_lately_may_still_end() -> None:
    native = Native(now_ms() - HOUR_MS)
    assert Cluster(native).hanging_transactions(open_for=2 * 3600) == []
    assert len(Cluster(native).hanging_transactions(open_for=1800)) == 2, "in both topics"


def test_an_abort_sends_the_epochs_that_the_log_has() -> None:
    native = Native(now_ms())
    assert Cluster(native).abort_transaction("orders", 0, 40).producer_id == 7
    assert native.aborted == [(("orders", 0), (7, 3, 0))]
