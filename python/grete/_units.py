"""Durations ("30s") and sizes ("64MiB") in the notation that people write."""

import math
import re

_NUMBER = re.compile(r"\s*([0-9]+(?:\.[0-9]*)?|\.[0-9]+)\s*([A-Za-z]*)\s*")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}
_BYTES = {
    "B": 1,
    "kB": 1000,
    "KB": 1000,
    "MB": 1000**2,
    "GB": 1000**3,
    "KiB": 1024,
    "MiB": 1024**2,
    "GiB": 1024**3,
}


# Limit that clocks, deadlines and dates of all kinds can still represent.
MAX_SECONDS = 100 * 365 * 24 * 3600.0
MAX_BYTES = 1 << 50


def seconds(value: str | float) -> float:
    """Returns the seconds of "200ms", "30s", "5m", "1h" or of a number of seconds. Raises ValueError that says what is
    wrong.
    """
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise ValueError(f'a duration is a string like "30s" or a number of seconds, not {value!r}')
    if not isinstance(value, str):
        if (isinstance(value, float) and not math.isfinite(value)) or value < 0:
            raise ValueError(f"a duration is finite and not negative, not {value!r}")
        return _check_seconds(value)
    match = _NUMBER.fullmatch(value)
    if match is None:
        raise ValueError(f'a duration is a number and a unit, like "30s", not "{value}"')
    number, unit = match.groups()
    if unit == "" and float(number) != 0:
        raise ValueError(
            f'"{value}" has no unit: write "{value.strip()}s" for seconds, "{value.strip()}ms" for milliseconds'
        )
    if unit and unit not in _SECONDS:
        raise ValueError(f'"{unit}" is no unit of time: use {", ".join(_SECONDS)}')
    return _check_seconds(float(number) * _SECONDS.get(unit, 1.0))


def _check_seconds(value: float) -> float:
    if value > MAX_SECONDS:
        raise ValueError(f"a duration is at most {MAX_SECONDS / 3600:.0f}h, which is 100 years")
    return float(value)


def size(value: str | int) -> int:
    """Returns the bytes of "64MiB", "1GB", "512B" or of an int. Raises ValueError that says what is wrong."""
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        raise ValueError(f'a size is a string like "64MiB" or a number of bytes, not {value!r}')
    if not isinstance(value, str):
        if value < 0:
            raise ValueError(f"a size is not negative, not {value!r}")
        return _check_bytes(value)
    match = _NUMBER.fullmatch(value)
    if match is None:
        raise ValueError(f'a size is a number and a unit, like "64MiB", not "{value}"')
    number, unit = match.groups()
    if unit not in _BYTES:
        known = ", ".join(_BYTES)
        raise ValueError(f'"{unit}" is no unit of size: use {known}' if unit else f'"{value}" has no unit: use {known}')
    return _check_bytes(float(number) * _BYTES[unit])


def _check_bytes(value: float) -> int:
    if value > MAX_BYTES:
        raise ValueError(f"a size is at most {MAX_BYTES >> 30}GiB")
    return round(value)
