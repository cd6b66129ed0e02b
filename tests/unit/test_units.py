"""Durations and sizes."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grete import _units


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("30s", 30),
        ("200ms", 0.2),
        ("5m", 300),
        ("5min", 300),
        ("1h", 3600),
        ("1.5s", 1.5),
        (" 2 s ", 2),
        ("0", 0),
        (".5s", 0.5),
    ],
)
def test_durations(text: str, seconds: float) -> None:
    assert math.isclose(_units.seconds(text), seconds)


@pytest.mark.parametrize(("value", "seconds"), [(30, 30), (0, 0), (0.25, 0.25)])
def test_a_number_is_seconds(value: float, seconds: float) -> None:
    assert _units.seconds(value) == seconds


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("30", 'has no unit: write "30s"'),
        ("30 sec", '"sec" is no unit of time: use ms, s, m'),
        ("-1s", "a number and a unit"),
        ("", "a number and a unit"),
        ("soon", "a number and a unit"),
        ("1s2", "a number and a unit"),
        (-1, "not negative"),
        (math.nan, "finite"),
        (math.inf, "finite"),
        (1e300, "at most 876000h, which is 100 years"),
        (10**400, "at most 876000h"),
        ("876001h", "at most 876000h"),
        ("9" * 400 + "s", "at most 876000h"),
        (True, "not True"),
        (None, "not None"),
    ],
)
def test_what_is_no_duration_is_refused_with_the_cure(value: object, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        _units.seconds(value)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "size"),
    [("64MiB", 64 << 20), ("1GB", 10**9), ("512B", 512), ("1.5KiB", 1536), ("2 kB", 2000), ("0B", 0)],
)
def test_sizes(text: str, size: int) -> None:
    assert _units.size(text) == size
    assert _units.size(size) == size


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("64", "has no unit"),
        ("64mib", '"mib" is no unit of size: use B'),
        ("MiB", "a number"),
        (-1, "not negative"),
        (10**400, "at most 1048576GiB"),
        ("9" * 400 + "B", "at most 1048576GiB"),
        (1.5, "not 1.5"),
        (False, "False"),
    ],
)
def test_what_is_no_size_is_refused_with_the_cure(value: object, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        _units.size(value)  # type: ignore[arg-type]


@given(st.text(max_size=8))
def test_any_text_is_a_duration_or_a_value_error(text: str) -> None:
    try:
        assert _units.seconds(text) >= 0
    except ValueError as error:
        assert str(error)  # noqa: PT017
