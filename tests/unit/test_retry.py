"""grete.Retry: what it reads, and what it refuses with file and line."""

from pathlib import Path
from typing import Any

import pytest

import grete


@pytest.mark.parametrize(
    ("backoff", "waits"),
    [
        ("200ms..30s", (0.2, 30.0)),
        (" 1s .. 5m ", (1.0, 300.0)),
        ("5s", (5.0, 5.0)),
        (2, (2.0, 2.0)),
        (0.5, (0.5, 0.5)),
        (("100ms", 3), (0.1, 3.0)),
    ],
)
def test_a_backoff_is_a_first_and_a_longest_wait(backoff: Any, waits: tuple[float, float]) -> None:
    assert grete.Retry(backoff=backoff).backoff_bounds == waits


def test_which_errors_are_worth_another_attempt() -> None:
    retry = grete.Retry(on=(OSError, KeyError), never=FileNotFoundError)
    assert retry.is_retriable(ConnectionError())
    assert retry.is_retriable(KeyError())
    assert not retry.is_retriable(FileNotFoundError())
    assert not retry.is_retriable(ValueError())
    assert grete.Retry().is_retriable(ValueError())
    assert not grete.Retry().is_retriable(KeyboardInterrupt())


def test_equal_ones_are_equal() -> None:
    assert grete.Retry() == grete.Retry(attempts=5, backoff="200ms..30s")
    assert grete.Retry(on=OSError) == grete.Retry(on=(OSError,))
    assert grete.Retry(attempts=None) != grete.Retry()
    assert hash(grete.Retry()) == hash(grete.Retry())


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"backoff": "fast"}, r'backoff=\'fast\'\): a backoff is a first and a longest wait, like "200ms\.\.30s"'),
        ({"backoff": "200..30s"}, '"200" has no unit'),
        ({"backoff": "200ms..30 parsecs"}, '"parsecs" is no unit of time'),
        ({"backoff": "1s.."}, "a duration is a number and a unit"),
        ({"backoff": "30s..200ms"}, r'did you mean "200ms\.\.30s"\?'),
        ({"backoff": "0s"}, "keep a core busy"),
        ({"backoff": -1}, "not negative"),
        ({"backoff": (1, 2, 3)}, "a first and a longest"),
        ({"backoff": None}, "a duration is a string"),
        ({"attempts": 0}, r"from 1 \(no retry\) up, or None"),
        ({"attempts": True}, "from 1"),
        ({"attempts": "3"}, "from 1"),
        ({"attempts": 1 << 32}, "from 1"),
        ({"jitter": 20}, r"from 0\.0 to 1\.0"),
        ({"jitter": "0.2"}, r"from 0\.0 to 1\.0"),
        ({"jitter": float("nan")}, r"from 0\.0 to 1\.0"),
        ({"on": "OSError"}, "an exception class"),
        ({"on": OSError()}, "an exception class"),
        ({"never": (OSError, 3)}, "an exception class"),
    ],
)
def test_what_makes_no_sense_is_refused_with_the_line_of_the_call(given: dict[str, Any], says: str) -> None:
    with pytest.raises(grete.ConfigError, match=says) as caught:
        grete.Retry(**given)
    assert caught.value.setting == next(iter(given))
    assert caught.value.location is not None
    file, line = caught.value.location.rsplit(":", 1)
    assert Path(file).name == "test_retry.py"
    assert "grete.Retry(**given)" in Path(__file__).read_text().splitlines()[int(line) - 1]
    assert str(caught.value).startswith(f"{caught.value.location}: Retry(")


def test_asking_for_a_later_time() -> None:
    later = grete.RetryLater("5m", "the bank sleeps")
    assert (later.delay, later.reason, str(later)) == (300.0, "the bank sleeps", "again in 300 s: the bank sleeps")
    assert str(grete.RetryLater(0.5)) == "again in 0.5 s"
    with pytest.raises(grete.ConfigError, match=r"test_retry\.py:\d+: RetryLater\('5'\): \"5\" has no unit"):
        grete.RetryLater("5")


def test_rejecting() -> None:
    reject = grete.Reject("no such customer")
    assert (str(reject), reject.reason, reject.message) == ("no such customer", "no such customer", None)


def test_a_value_that_does_not_decode_is_retried_only_if_on_names_that() -> None:
    error = grete.DecodeError("no", topic="orders", partition=0, offset=0)
    assert not grete.Retry().is_retriable(error)
    assert not grete.Retry(on=(grete.GreteError, OSError)).is_retriable(error)
    assert grete.Retry(on=(grete.DecodeError, OSError)).is_retriable(error)
    assert grete.Retry().is_retriable(grete.GreteError("another"))
