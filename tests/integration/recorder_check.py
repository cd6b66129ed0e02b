"""The judge of what `apps.recorder` processes have written down."""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from tests.integration.app_process import read_events
from tests.kafka.load import value_of


@dataclass(frozen=True)
class Batch:
    """One finished call of consume."""

    pid: int
    partition: int
    begin: int
    end: int
    runs: tuple[tuple[int, int], ...]
    crc: int

    @property
    def count(self) -> int:
        return sum(last - first + 1 for first, last in self.runs)


class Ledger:
    """All that the processes of one directory have finished so far."""

    def __init__(self, directory: Path) -> None:
        self.batches: list[Batch] = []
        self.events: dict[int, list[dict[str, Any]]] = {}
        for path in sorted(directory.glob("*.jsonl")):
            pid = int(path.stem)
            self.events[pid] = list(read_events(path))
            self.batches.extend(_batches(pid, self.events[pid]))
        self.batches.sort(key=lambda batch: batch.end)

    @property
    def count(self) -> int:
        """Records, repeated ones included."""
        return sum(batch.count for batch in self.batches)

    def times_seen(self) -> dict[int, Counter[int]]:
        """{partition: {offset: how often}}; for tests of some thousand records."""
        seen: dict[int, Counter[int]] = {}
        for batch in self.batches:
            counter = seen.setdefault(batch.partition, Counter())
            for first, last in batch.runs:
                counter.update(range(first, last + 1))
        return seen

    def assert_everything(self, ends: Mapping[int, int]) -> None:
        """Every offset below each partition's end was processed at least once."""
        for partition, end in ends.items():
            reach = 0
            for first, last in sorted(run for batch in self._of(partition) for run in batch.runs):
                assert first <= reach, f"partition {partition}: offsets {reach} to {first - 1} are missing"
                reach = max(reach, last + 1)
            assert reach == end, f"partition {partition}: ends at {reach} of {end}"

    def assert_exactly_once_in_order(self, ends: Mapping[int, int]) -> None:
        """Per partition: 0, 1, 2 ... in the order of processing, whichever process did it."""
        for partition, end in ends.items():
            expected = 0
            for batch in self._of(partition):
                for first, last in batch.runs:
                    assert first == expected, f"partition {partition}: {first} came where {expected} was due ({batch})"
                    expected = last + 1
            assert expected == end, f"partition {partition}: ends at {expected} of {end}"

    def assert_checksums(self, partitions: int, value_size: int) -> None:
        """The values are those that `load.fill` wrote."""
        for batch in self.batches:
            crc = 0
            for first, last in batch.runs:
                for offset in range(first, last + 1):
                    crc = zlib.crc32(value_of(offset * partitions + batch.partition, value_size), crc)
            assert crc == batch.crc, f"wrong bytes in {batch}"

    def assert_one_owner_at_a_time(self) -> None:
        """No two processes ever worked on one partition at the same moment."""
        for partition in {batch.partition for batch in self.batches}:
            spans = sorted((batch.begin, batch.end, batch.pid) for batch in self._of(partition))
            for (_, end, pid), (begin, _, other) in pairwise(spans):
                assert pid == other or begin >= end, (
                    f"partition {partition}: {other} began {(end - begin) / 1e6:.1f} ms before {pid} had finished"
                )

    def owners(self, partition: int) -> list[int]:
        """The processes that worked on it, in turn."""
        turns: list[int] = []
        for batch in self._of(partition):
            if not turns or turns[-1] != batch.pid:
                turns.append(batch.pid)
        return turns

    def _of(self, partition: int) -> list[Batch]:
        return [batch for batch in self.batches if batch.partition == partition]


def _batches(pid: int, events: list[dict[str, Any]]) -> list[Batch]:
    open_since: dict[int, int] = {}
    found = []
    for event in events:
        if event["event"] == "begin":
            open_since[event["partition"]] = event["at"]
        elif event["event"] == "batch":
            partition = event["partition"]
            runs = tuple((first, last) for first, last in event["runs"])
            found.append(Batch(pid, partition, open_since.pop(partition), event["at"], runs, event["crc"]))
    return found
