"""The command line that the driver gives to every client."""

from __future__ import annotations

import sys
from dataclasses import dataclass


@dataclass(frozen=True)
class ConsumeArguments:
    """BOOTSTRAP TOPIC PARTITIONS RECORDS [NAME=VALUE ...]"""

    bootstrap: str
    topic: str
    partitions: int
    records: int
    settings: dict[str, str]

    @classmethod
    def parse(cls) -> ConsumeArguments:
        bootstrap, topic, partitions, records, *pairs = sys.argv[1:]
        return cls(bootstrap, topic, int(partitions), int(records), _settings(pairs))


@dataclass(frozen=True)
class RateArguments:
    """BOOTSTRAP TOPIC PER_SECOND WARMUP_SECONDS WINDOWS WINDOW_SECONDS [NAME=VALUE ...]"""

    bootstrap: str
    topic: str
    per_second: int
    warm_up: float
    windows: int
    seconds: float
    settings: dict[str, str]

    @classmethod
    def parse(cls) -> RateArguments:
        bootstrap, topic, per_second, warm_up, windows, seconds, *pairs = sys.argv[1:]
        return cls(bootstrap, topic, int(per_second), float(warm_up), int(windows), float(seconds), _settings(pairs))

    @property
    def room(self) -> int:
        """For how many records there has to be room, with some to spare."""
        return int(self.per_second * (self.warm_up + self.windows * self.seconds + 10))


@dataclass(frozen=True)
class ProduceArguments:
    """BOOTSTRAP TOPIC PARTITIONS WARM_UP RECORDS VALUE_BYTES [NAME=VALUE ...]"""

    bootstrap: str
    topic: str
    partitions: int
    warm_up: int
    records: int
    value: bytes
    settings: dict[str, str]

    @classmethod
    def parse(cls) -> ProduceArguments:
        bootstrap, topic, partitions, warm_up, records, size, *pairs = sys.argv[1:]
        value = b"x" * int(size)
        return cls(bootstrap, topic, int(partitions), int(warm_up), int(records), value, _settings(pairs))

    @property
    def partition(self) -> int | None:
        """Partition of all records; None lets the client spread them."""
        return 0 if self.partitions == 1 else None


def _settings(pairs: list[str]) -> dict[str, str]:
    return {name: value for name, _, value in (pair.partition("=") for pair in pairs)}
