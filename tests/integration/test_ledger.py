"""The judge itself: what it must not let pass."""

from __future__ import annotations

import json
import zlib
from pathlib import Path

import pytest

from tests.integration.recorder_check import Ledger
from tests.kafka.load import value_of


def batch(partition: int, first: int, last: int, begin: int, end: int) -> list[dict[str, object]]:
    """The two lines of one call of consume, two partitions in the topic."""
    crc = 0
    for offset in range(first, last + 1):
        crc = zlib.crc32(value_of(offset * 2 + partition, 100), crc)
    return [
        {"event": "begin", "partition": partition, "first": first, "at": begin},
        {"event": "batch", "partition": partition, "runs": [[first, last]], "crc": crc, "at": end},
    ]


def ledger(directory: Path, **processes: list[dict[str, object]]) -> Ledger:
    for name, lines in processes.items():
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (directory / f"{name.removeprefix('p')}.jsonl").write_text(text)
    return Ledger(directory)


def test_a_sound_run_passes(tmp_path: Path) -> None:
    sound = ledger(
        tmp_path, p1=batch(0, 0, 9, 1, 2) + batch(1, 0, 4, 2, 3), p2=batch(0, 10, 19, 3, 4) + batch(1, 5, 9, 4, 5)
    )
    sound.assert_everything({0: 20, 1: 10})
    sound.assert_exactly_once_in_order({0: 20, 1: 10})
    sound.assert_checksums(2, 100)
    sound.assert_one_owner_at_a_time()
    assert sound.count == 30
    assert sound.owners(0) == [1, 2]


def test_a_gap_is_found(tmp_path: Path) -> None:
    gap = ledger(tmp_path, p1=batch(0, 0, 9, 1, 2) + batch(0, 11, 19, 3, 4))
    with pytest.raises(AssertionError, match="offsets 10 to 10 are missing"):
        gap.assert_everything({0: 20})
    with pytest.raises(AssertionError, match="11 came where 10 was due"):
        gap.assert_exactly_once_in_order({0: 20})


def test_a_missing_end_and_a_missing_partition_are_found(tmp_path: Path) -> None:
    short = ledger(tmp_path, p1=batch(0, 0, 9, 1, 2))
    for ends in ({0: 11}, {0: 10, 1: 1}):
        with pytest.raises(AssertionError, match="ends at"):
            short.assert_everything(ends)
        with pytest.raises(AssertionError, match="ends at"):
            short.assert_exactly_once_in_order(ends)


def test_a_repetition_and_a_wrong_order_are_found(tmp_path: Path) -> None:
    twice = ledger(tmp_path, p1=batch(0, 0, 9, 1, 2) + batch(0, 9, 19, 3, 4))
    twice.assert_everything({0: 20})
    assert twice.times_seen()[0][9] == 2
    with pytest.raises(AssertionError, match="9 came where 10 was due"):
        twice.assert_exactly_once_in_order({0: 20})


def test_wrong_bytes_are_found(tmp_path: Path) -> None:
    lines = batch(0, 0, 9, 1, 2)
    lines[1]["crc"] = 1
    with pytest.raises(AssertionError, match="wrong bytes"):
        ledger(tmp_path, p1=lines).assert_checksums(2, 100)


def test_two_owners_at_once_are_found(tmp_path: Path) -> None:
    both = ledger(tmp_path, p1=batch(0, 0, 9, 100, 200), p2=batch(0, 10, 19, 150, 250))
    with pytest.raises(AssertionError, match="2 began"):
        both.assert_one_owner_at_a_time()


def test_a_line_cut_by_a_kill_does_not_count(tmp_path: Path) -> None:
    path = tmp_path / "1.jsonl"
    text = "".join(json.dumps(line) + "\n" for line in batch(0, 0, 9, 1, 2) + batch(0, 10, 19, 3, 4))
    path.write_text(text[:-5])
    Ledger(tmp_path).assert_exactly_once_in_order({0: 10})
