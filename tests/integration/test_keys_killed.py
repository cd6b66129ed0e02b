"""Keys side by side in one partition: their order, and what is done again, when the process is killed repeatedly."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from tests.integration.apprun import AppRun
from tests.kafka import KafkaCluster, fill

pytestmark = pytest.mark.kafka
TARGET = "tests.integration.apps.keyed:app"
KEYS = 1000
MAX_IN_FLIGHT = 1000
COMMIT_MS = 100


def key_of(offset: int) -> int:
    # No key comes at a fixed distance.
    return (offset * 7919 + offset // 17) % KEYS


@dataclass(frozen=True)
class Life:
    """What one process noted: offsets that it began and ended, in order; and what was committed when it was over."""

    notes: list[tuple[bool, int]]
    committed: int

    @property
    def ended(self) -> list[int]:
        return [offset for begins, offset in self.notes if not begins]


def read_notes(directory: Path, pid: int) -> list[tuple[bool, int]]:
    path = directory / f"{pid}.notes"
    if not path.exists():
        return []
    lines = path.read_bytes().splitlines(keepends=True)
    return [(line[:1] == b"+", int(line[1:])) for line in lines if line.endswith(b"\n")]


def has_size(path: Path, size: int) -> bool:
    # Offsets have five digits at most, a record two notes: this is cheaper to ask than to count.
    return path.exists() and path.stat().st_size >= size


def lives(kafka: KafkaCluster, topic: str, directory: Path, count: int, kills: int, offset_map: bool) -> Iterator[Life]:
    """Runs the App until all is done, killed whenever it has done an equal share of the records."""
    group = f"{topic}-map" if offset_map else f"{topic}-plain"
    settings = {
        "KEYED_SERVERS": kafka.bootstrap_servers,
        "KEYED_TOPIC": topic,
        "KEYED_GROUP": group,
        "KEYED_COMMIT_MS": COMMIT_MS,
        "KEYED_MAX_IN_FLIGHT": MAX_IN_FLIGHT,
        "KEYED_OFFSET_MAP": "1" if offset_map else "",
    }
    # Half of them would do: a process does more than its share before it is killed, and some again.
    share = count // (2 * (kills + 1))

    def committed() -> int:
        return kafka.admin.committed(group).get((topic, 0), 0)

    for _ in range(kills):
        with AppRun(TARGET, directory, settings) as run:
            notes = directory / f"{run.pid}.notes"
            run.until(partial(has_size, notes, share * 14), 60.0, f"about {share} records")
            run.process.kill()
            run.wait(10.0)
        yield Life(read_notes(directory, run.pid), committed())
    with AppRun(TARGET, directory, settings) as run:
        run.until(lambda: committed() == count, 120.0, "all is committed")
        assert run.stop() == 0, run.output
    yield Life(read_notes(directory, run.pid), count)


def judge(found: list[Life], count: int) -> list[int]:
    """Returns how many records each start did again."""
    places: dict[int, int] = {}
    per_key: dict[int, int] = {}
    for offset in range(count):
        places[offset] = per_key[key_of(offset)] = per_key.get(key_of(offset), -1) + 1
    done: set[int] = set()
    # Of each key, how many of its first records are done.
    reach = dict.fromkeys(range(KEYS), 0)
    again: list[int] = []
    bounds: list[int] = []
    for number, life in enumerate(found):
        busy: dict[int, int] = {}
        last: dict[int, int] = {}
        for begins, offset in life.notes:
            key = key_of(offset)
            if begins:
                assert key not in busy, f"life {number}: {offset} of key {key} began during {busy[key]}"
                busy[key] = offset
                place = places[offset]
                assert place <= reach[key], f"life {number}: {offset} of key {key} began before the one in front"
                assert key not in last or place == last[key] + 1, f"life {number}: key {key} jumped to {offset}"
                last[key] = place
            else:
                assert busy.pop(key) == offset
                reach[key] = max(reach[key], places[offset] + 1)
        ended = life.ended
        assert len(set(ended)) == len(ended), f"life {number} did a record twice"
        again.append(len(done & set(ended)))
        if bounds:
            assert again[-1] <= bounds[-1], f"start {number} did {again[-1]} again, at most {bounds[-1]} are due"
        bounds.append(bound(found[: number + 1]))
        done |= set(ended)
        assert all(offset in done for offset in range(life.committed)), "nothing was committed that is not done"
    assert len(done) == count, "nothing is lost"
    print(f"at most {bounds[:-1]}")
    return again[1:]


def bound(found: list[Life]) -> int:
    """How many records may be done again after these lives: those in flight at the last commit, and those done since.

    The commit was made at the latest when the records up to its offset were done; it may have been any time after that.
    """
    committed = found[-1].committed
    done: set[int] = set()
    since: set[int] = set()
    reach = 0
    for life in found:
        for offset in life.ended:
            done.add(offset)
            while reach in done:
                reach += 1
            if reach >= committed:
                since.add(offset)
    return len(since) + MAX_IN_FLIGHT


def run(kafka: KafkaCluster, topic: str, directory: Path, count: int, kills: int) -> None:
    kafka.create_topic(topic)
    fill(kafka.bootstrap_servers, topic, count, key=lambda index: b"key-%d" % key_of(index))
    totals = {}
    for offset_map in (False, True):
        again = judge(list(lives(kafka, topic, directory / str(offset_map), count, kills, offset_map)), count)
        totals[offset_map] = sum(again)
        print(f"{kills} kills, offset_map={offset_map}: of {count} records {sum(again)} done again, each time {again}")
    assert totals[True] < totals[False]


def test_order_by_key_survives_kills(kafka: KafkaCluster, topic: str, tmp_path: Path) -> None:
    run(kafka, topic, tmp_path, count=16_000, kills=3)


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_order_by_key_survives_fifty_kills(kafka: KafkaCluster, topic: str, tmp_path: Path) -> None:
    kills = int(os.environ.get("SOAK_KILLS", "50"))
    run(kafka, topic, tmp_path, count=4000 * (kills + 1), kills=kills)
