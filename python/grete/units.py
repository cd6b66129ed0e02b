"""Durations ("30s") and sizes ("64MiB") as people write them."""

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


def seconds(value: str | float) -> float:
    """Seconds of "200ms", "30s", "5m", "1h" or of a number, which is seconds. ValueError says what is wrong."""
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise ValueError(f'a duration is a string like "30s" or a number of seconds, not {value!r}')
    if not isinstance(value, str):
        if not math.isfinite(value) or value < 0:
            raise ValueError(f"a duration is finite and not negative, not {value!r}")
        return float(value)
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
    return float(number) * _SECONDS.get(unit, 1.0)


def size(value: str | int) -> int:
    """Bytes of "64MiB", "1GB", "512B" or of an int, which is bytes. ValueError says what is wrong."""
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        raise ValueError(f'a size is a string like "64MiB" or a number of bytes, not {value!r}')
    if not isinstance(value, str):
        if value < 0:
            raise ValueError(f"a size is not negative, not {value!r}")
        return value
    match = _NUMBER.fullmatch(value)
    if match is None:
        raise ValueError(f'a size is a number and a unit, like "64MiB", not "{value}"')
    number, unit = match.groups()
    if unit not in _BYTES:
        known = ", ".join(_BYTES)
        raise ValueError(f'"{unit}" is no unit of size: use {known}' if unit else f'"{value}" has no unit: use {known}')
    return round(float(number) * _BYTES[unit])
