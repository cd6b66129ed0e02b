"""The judge of the journal finds what is wrong."""

from __future__ import annotations

import pytest

from tests.integration.journal import Journal, Note, key_of, kind_of, partition_of

# Records 0, 4, 8, 12 ... are of partition 0; 0 and 28 of one key.
POISON = next(index for index in range(0, 1000, 4) if kind_of(index) == "poison")


def journal(*notes: Note) -> Journal:
    made = Journal(heals_after=None)
    made.notes.extend(notes)
    made.failures.update(note.bad for note in notes if note.bad is not None)
    return made


def done(index: int, member: str = "a") -> tuple[Note, Note]:
    return Note(member, "try", (index,)), Note(member, "ok", (index,))


def failed(index: int) -> tuple[Note, Note]:
    return Note("a", "try", (index,)), Note("a", "fail", (index,), index)


def test_what_is_in_order_passes() -> None:
    good = journal(*done(0), *done(4), *done(5), *done(8))
    good.assert_in_order(partition_of, 100, None)
    good.assert_one_at_a_time(partition_of, 100)
    assert good.succeeded() == {0: 1, 4: 1, 5: 1, 8: 1}


def test_a_record_that_overtakes_is_found() -> None:
    bad = journal(*done(0), *done(8), *done(4))
    with pytest.raises(AssertionError, match="8 of 0 before 4"):
        bad.assert_in_order(partition_of, 100, None)
    bad.assert_in_order(key_of, 100, None)


def test_two_at_a_time_are_found() -> None:
    first, second = done(0), done(28, "b")
    both = journal(first[0], second[0], first[1], second[1])
    for unit in (partition_of, key_of):
        with pytest.raises(AssertionError, match="began during"):
            both.assert_one_at_a_time(unit, 100)


def test_one_that_is_passed_before_its_last_attempt_is_found() -> None:
    behind = POISON + 4
    passed = journal(*failed(POISON), *done(behind), *failed(POISON))
    with pytest.raises(AssertionError, match="before"):
        passed.assert_in_order(partition_of, 100, None)
    with pytest.raises(AssertionError, match="before"):
        passed.assert_in_order(partition_of, 100, 3)
    journal(*failed(POISON), *failed(POISON), *done(behind)).assert_in_order(partition_of, 100, None)
