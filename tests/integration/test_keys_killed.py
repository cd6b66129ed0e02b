"""Keys side by side in one partition: their order, and what is done again, when the process is killed repeatedly.

No figure of one run is compared with one of another run: how much is done again depends on the machine. The commit that
a kill leaves behind says exactly what must not be done again.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

import grete.client
from tests.integration.app_process import AppRun
from tests.kafka import KafkaCluster, fill

pytestmark = pytest.mark.kafka
TARGET = "tests.integration.apps.keyed:app"
INSTANCE = "keyed"
KEYS = 1000
WORKERS = 10
MAX_MESSAGES = 8
MAX_IN_FLIGHT = 1000
COMMIT_MS = 100


def key_of(offset: int) -> int:
    # No key comes at a fixed distance.
    return (offset * 7919 + offset // 17) % KEYS


@dataclass(frozen=True)
class Commit:
    """A committed offset, and the offsets beyond it that its metadata marks as done."""

    offset: int
    marked: frozenset[int]

    def covers(self, offset: int) -> bool:
        return offset < self.offset or offset in self.marked


@dataclass(frozen=True)
class Life:
    """What one process noted: offsets that it began and ended, in order; and the commit that was there afterwards."""

    notes: list[tuple[bool, int]]
    commit: Commit

    @property
    def ended(self) -> list[int]:
        return [offset for begins, offset in self.notes if not begins]


def read_notes(directory: Path, pid: int) -> list[tuple[bool, int]]:
    path = directory / f"{pid}.notes"
    if not path.exists():
        return []
    lines = path.read_bytes().splitlines(keepends=True)
    return [(line[:1] == b"+", int(line[1:])) for line in lines if line.endswith(b"\n")]


def read_commit(stored: tuple[int, str]) -> Commit:
    """Reads an offset map as ADR 0055 has it, without the code under test."""
    offset, metadata = stored
    if not metadata:
        return Commit(max(offset, 0), frozenset())
    name, _, text = metadata.partition(":")
    assert name == "grete1", metadata
    numbers, value, shift = [], 0, 0
    for byte in base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)):
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            numbers.append(value)
            value = shift = 0
    committed, *pairs = numbers
    assert committed == offset, "the map belongs to the offset beside it"
    marked: list[int] = []
    at = offset
    for less, length in zip(pairs[::2], pairs[1::2], strict=True):
        marked.extend(range(at + less + 1, at + less + length + 2))
        at = marked[-1] + 1
    return Commit(offset, frozenset(marked))


def has_size(path: Path, size: int) -> bool:
    # A record has two notes, each of at most 7 bytes below offset 100,000: this is cheaper to ask than to count.
    return path.exists() and path.stat().st_size >= size


def lives(kafka: KafkaCluster, topic: str, directory: Path, count: int, kills: int, offset_map: bool) -> Iterator[Life]:
    """Runs the App until all is done, killed whenever it has done a share of the records.

    A kill that comes late finds a process that waits: each begins no more than its equal part, so that the last one has
    something left. With a map each holds an early record, so that all that it ends later is ahead of its commits.
    """
    part = count // (kills + 1)
    share = part // 2
    settings = {
        "KEYED_SERVERS": kafka.bootstrap_servers,
        "KEYED_TOPIC": topic,
        "KEYED_GROUP": topic,
        "KEYED_INSTANCE": INSTANCE,
        "KEYED_COMMIT_MS": COMMIT_MS,
        "KEYED_WORKERS": WORKERS,
        "KEYED_MAX_MESSAGES": MAX_MESSAGES,
        "KEYED_MAX_IN_FLIGHT": MAX_IN_FLIGHT,
        "KEYED_OFFSET_MAP": "1" if offset_map else "",
        "KEYED_HELD": share // 4 if offset_map else 0,
        "KEYED_LIMIT": part,
    }

    def commit() -> Commit:
        return read_commit(kafka.admin.stored(topic, topic))

    def commit_has_progress() -> bool:
        return len(commit().marked) >= share // 2 if offset_map else commit().offset > 0

    with grete.client.Admin({"bootstrap.servers": kafka.bootstrap_servers}) as admin:
        for number in range(kills):
            with AppRun(TARGET, directory, settings) as run:
                notes = directory / f"{run.pid}.notes"
                run.until(partial(has_size, notes, share * 14), 60.0, f"about {share} records")
                if number == 0:
                    # One kill must find a commit that says something. The others come when they come.
                    run.until(commit_has_progress, 60.0, "a commit that covers part of it")
                run.process.kill()
                run.wait(10.0)
            # No request that the dead process has sent changes the commit any more.
            admin.remove_members(topic, [INSTANCE])
            yield Life(read_notes(directory, run.pid), commit())
    with AppRun(TARGET, directory, settings | {"KEYED_HELD": 0, "KEYED_LIMIT": 0}) as run:
        run.until(lambda: commit() == Commit(count, frozenset()), 120.0, "all is committed")
        assert run.stop() == 0, run.output
    yield Life(read_notes(directory, run.pid), commit())


def check_order(found: list[Life], count: int) -> None:
    """Checks that the records of a key are done in order, each once by a process, and all of them."""
    places: dict[int, int] = {}
    per_key: dict[int, int] = {}
    for offset in range(count):
        places[offset] = per_key[key_of(offset)] = per_key.get(key_of(offset), -1) + 1
    # Of each key, how many of its first records are done.
    reach = dict.fromkeys(range(KEYS), 0)
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
        assert len(set(life.ended)) == len(life.ended), f"life {number} did a record twice"
    assert {offset for life in found for offset in life.ended} == set(range(count)), "nothing is lost"


def check_commits(found: list[Life], offset_map: bool) -> None:
    """Checks what each start did again against the commit that it found, and each commit against what was done."""
    done: set[int] = set()
    before = Commit(0, frozenset())
    again: list[int] = []
    due_without_map: list[int] = []
    for number, life in enumerate(found):
        wrong = sorted(offset for begins, offset in life.notes if begins and before.covers(offset))
        assert not wrong, f"start {number} did {wrong[:9]} again, which its commit covers"
        again.append(len(done.intersection(life.ended)))
        done.update(life.ended)
        commit = life.commit
        due_without_map.append(sum(offset >= commit.offset for offset in done))
        assert done.issuperset(range(commit.offset)), f"commit {number} covers what is not done"
        assert done.issuperset(commit.marked), f"commit {number} marks what is not done"
        assert commit.offset >= before.offset, f"commit {number} is behind the one before"
        if offset_map:
            lost = sorted(offset for offset in before.marked if not commit.covers(offset))
            assert not lost, f"commit {number} no longer covers {lost[:9]}"
            missing = left_out(life)
            assert len(missing) <= WORKERS * MAX_MESSAGES, f"commit {number} leaves out {len(missing)}: {missing[:9]}"
        else:
            assert not commit.marked
        before = commit
    covered = [len(life.commit.marked) for life in found]
    assert sum(again) <= sum(due_without_map) - sum(covered)
    print(f"done again {again[1:]}, without maps due {due_without_map[:-1]}, marked {covered[:-1]}")
    if offset_map:
        assert covered[0] > 0, "the first kill waits for a map"
        assert sum(again) < sum(due_without_map)


def left_out(life: Life) -> list[int]:
    """Returns what had ended before the commit was made and is not covered by it.

    All that the commit covers had ended by then, and what had ended before the last of these. A worker marks the
    records of a job together before it takes another job: each leaves out those of one job at most.
    """
    covered = [place for place, offset in enumerate(life.ended) if life.commit.covers(offset)]
    until = covered[-1] if covered else 0
    return [offset for offset in life.ended[:until] if not life.commit.covers(offset)]


def run(kafka: KafkaCluster, topic: str, directory: Path, count: int, kills: int, offset_map: bool) -> None:
    kafka.create_topic(topic)
    fill(kafka.bootstrap_servers, topic, count, key=lambda index: b"key-%d" % key_of(index))
    found = list(lives(kafka, topic, directory, count, kills, offset_map))
    check_order(found, count)
    check_commits(found, offset_map)


def test_the_reader_reads_the_fixed_form() -> None:
    assert read_commit((100, "grete1:ZAECAACkAqsC")) == Commit(100, frozenset([102, 103, 104, 106, *range(400, 700)]))


@pytest.mark.parametrize("offset_map", [False, True])
def test_order_by_key_survives_kills(kafka: KafkaCluster, topic: str, tmp_path: Path, offset_map: bool) -> None:
    run(kafka, topic, tmp_path, count=16_000, kills=3, offset_map=offset_map)


@pytest.mark.soak
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("offset_map", [False, True])
def test_order_by_key_survives_fifty_kills(kafka: KafkaCluster, topic: str, tmp_path: Path, offset_map: bool) -> None:
    kills = int(os.environ.get("SOAK_KILLS", "50"))
    run(kafka, topic, tmp_path, count=4000 * (kills + 1), kills=kills, offset_map=offset_map)
