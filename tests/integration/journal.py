"""Numbered records that fail as planned, the journal of what handlers did with them, and its judge."""

from __future__ import annotations

import itertools
import json
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import grete

PARTITIONS = 4
KEYS = 7
# What becomes of record i, by i: of these, every partition and every part of a load gets some.
FLAKY_EVERY, POISON_EVERY, REJECTED_EVERY, NEVER_EVERY = 13, 23, 41, 53
# So often a flaky record fails before it succeeds.
FLAKY_TIMES = 2
FIRST_TIMESTAMP = 1_700_000_000_000


class NeverRetriedError(Exception):
    """Not an error to retry."""


def kind_of(index: int) -> str:
    """good, flaky (fails at first), poison (always), rejected, never (fails with what is not retried)."""
    kinds = {"poison": POISON_EVERY, "rejected": REJECTED_EVERY, "never": NEVER_EVERY, "flaky": FLAKY_EVERY}
    return next((kind for kind, every in kinds.items() if index % every == every // 2), "good")


def partition_of(index: int) -> int:
    return index % PARTITIONS


def key_of(index: int) -> bytes:
    return b"key-%d-%d" % (partition_of(index), index // PARTITIONS % KEYS)


def value_of(index: int) -> bytes:
    return json.dumps({"index": index, "kind": kind_of(index)}).encode()


def index_of(value: bytes | None) -> int:
    assert value is not None
    return int(json.loads(value)["index"])


def headers_of(index: int) -> list[tuple[str, bytes | None]]:
    """Some have none, some have a name twice, some have one without a value."""
    return [[], [("trace", b"%d" % index)], [("a", b"1"), ("a", None)]][index % 3]  # type: ignore[return-value]


@dataclass(frozen=True)
class Note:
    """What a handler did with records that it was given together (one, unless it takes columns)."""

    member: str
    did: str  # "try", "ok", "fail"
    rows: tuple[int, ...]
    bad: int | None = None  # which one failed


class Journal:
    """Processes records as planned, for the handlers of all members, and keeps notes in the order of what happens."""

    def __init__(self, *, heals_after: int | None) -> None:
        """`heals_after`: so often each poison record fails before it succeeds after all; None: until `heal`."""
        self.notes: list[Note] = []
        self.failures: Counter[int] = Counter()
        self._heals_after = heals_after
        self._healed = False
        self._lock = threading.Lock()

    def heal(self) -> int:
        """From now on nothing fails any more. The number of notes so far."""
        with self._lock:
            self._healed = True
            return len(self.notes)

    def process(self, member: str, rows: Sequence[int], reject: Callable[[int], Exception]) -> None:
        """Processes all rows, or none of them: raises what the first bad one raises."""
        self._note(member, "try", rows)
        for index in rows:
            error = self._error(index, reject)
            if error is not None:
                self._note(member, "fail", rows, index)
                raise error
        self._note(member, "ok", rows)

    def _note(self, member: str, did: str, rows: Iterable[int], bad: int | None = None) -> None:
        with self._lock:
            self.notes.append(Note(member, did, tuple(rows), bad))

    def _error(self, index: int, reject: Callable[[int], Exception]) -> Exception | None:
        kind = kind_of(index)
        with self._lock:
            if kind == "good" or self._healed:
                return None
            times = self.failures[index]
            if (kind == "flaky" and times >= FLAKY_TIMES) or (times == self._heals_after):
                return None
            self.failures[index] += 1
        match kind:
            case "rejected":
                return reject(index)
            case "never":
                return NeverRetriedError(f"record {index}")
            case _:
                return ValueError(f"record {index} is {kind}, failure {times + 1}")

    # What the notes say

    def members(self) -> Counter[str]:
        """How many records each member has processed."""
        return Counter(note.member for note in list(self.notes) if note.did == "ok" for _ in note.rows)

    def succeeded(self, since: int = 0) -> Counter[int]:
        """How often each record was processed."""
        return Counter(index for note in list(self.notes)[since:] if note.did == "ok" for index in note.rows)

    def assert_in_order(self, unit: Callable[[int], object], until: int, attempts: int | None) -> None:
        """No handler got a record before those in front of it, in its unit (partition or key), were settled.

        Settled: processed with success, or failed and not tried again. With `attempts`, where records that are settled
        may come again with the next owner: failed so often, or once if it is not retried.
        """
        order = _Order(self.notes[:until], unit, attempts)
        for at, note in enumerate(order.notes):
            order.see(note)
            if note.did == "try":
                assert list(note.rows) == sorted(note.rows), f"rows out of order: {note}"
                for index in note.rows:
                    for before in order.open_before(index, at):
                        text = f"{note.member} was given {index} of {unit(index)!r} before {before} was settled"
                        assert before in note.rows, text

    def assert_one_at_a_time(self, unit: Callable[[int], object], until: int) -> None:
        """No handler got a record of a unit while another record of the unit was being processed."""
        busy: dict[object, Note] = {}
        for note in self.notes[:until]:
            for name in {unit(index) for index in note.rows}:
                if note.did == "try":
                    assert name not in busy, f"{note} began during {busy[name]}"
                    busy[name] = note
                else:
                    busy.pop(name, None)


class _Order:
    """What was settled when, within units."""

    def __init__(self, notes: list[Note], unit: Callable[[int], object], attempts: int | None) -> None:
        self.notes = notes
        self._unit = unit
        self._attempts = attempts
        self._last_try = {index: at for at, note in enumerate(notes) if note.did == "try" for index in note.rows}
        self._rows: defaultdict[object, list[int]] = defaultdict(list)
        for index in sorted(self._last_try):
            self._rows[unit(index)].append(index)
        # Of each unit, how many of its first records have been processed.
        self._front: Counter[object] = Counter()
        self._done: set[int] = set()
        self._failed: Counter[int] = Counter()

    def see(self, note: Note) -> None:
        if note.bad is not None:
            self._failed[note.bad] += 1
        if note.did == "ok":
            self._done.update(note.rows)

    def open_before(self, index: int, at: int) -> Iterator[int]:
        """Records in front of this one, in its unit, that are not settled at this moment."""
        unit = self._unit(index)
        rows = self._rows[unit]
        while self._front[unit] < len(rows) and rows[self._front[unit]] in self._done:
            self._front[unit] += 1
        front = itertools.takewhile(lambda before: before < index, itertools.islice(rows, self._front[unit], None))
        return (before for before in front if not self._settled(before, at))

    def _settled(self, index: int, at: int) -> bool:
        if index in self._done:
            return True
        if self._attempts is None:
            return self._failed[index] > 0 and self._last_try[index] < at
        return self._failed[index] >= (self._attempts if kind_of(index) == "poison" else 1)


def rejection(message: grete.Message | None = None) -> Callable[[int], Exception]:
    """What a handler raises for a rejected record, naming it if it can."""
    return lambda index: grete.Reject(f"record {index} is rejected", message=message)
