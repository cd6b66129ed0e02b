"""A handler that waits 1 ms for each record, as for a database: what does concurrency bring?"""

from __future__ import annotations

import sys
from dataclasses import dataclass

from benchmarks.common.progress import say
from benchmarks.common.run import ClientFailedError, run_client
from benchmarks.consume.topics import Topic

from .measurement import Bench, Measurement, Waiting, over_windows, typical

WORKERS = 10
JSON = "JSON values of ~107 B, 1,000 keys"
TOPICS = {
    1: Topic("waiting1", 2_000_000, "keyed", JSON),
    8: Topic("waiting8", 3_000_000, "keyed", JSON, partitions=8),
}


@dataclass(frozen=True)
class Way:
    """One setting of the route."""

    name: str
    title: str
    concurrency: str
    style: str
    partitions: int

    def command(self, bench: Bench) -> list[str]:
        """The whole command line."""
        settings = {"concurrency": self.concurrency, "style": self.style, "workers": str(WORKERS), **bench.windows}
        words = [sys.executable, "-m", "benchmarks.process.clients.grete_io"]
        topic = TOPICS[self.partitions]
        common = [bench.broker.bootstrap, topic.name, str(topic.partitions), str(topic.records)]
        return [*words, *common, *(f"{name}={value}" for name, value in settings.items())]


def _ways() -> dict[str, Way]:
    ways = {}
    for partitions in TOPICS:
        for concurrency in ("partition", "key", "unordered"):
            for style, what in (("sync", "time.sleep"), ("async", "asyncio.sleep")):
                if style == "async" and concurrency == "unordered":
                    continue
                name = f"{style}-{concurrency}-{partitions}"
                title = f'concurrency="{concurrency}", {what}(0.001)'
                ways[name] = Way(name, title, concurrency, style, partitions)
    return ways


WAYS = _ways()


def measure(bench: Bench, found: Measurement) -> None:
    """All ways, each once: the medians are over the windows of its process."""
    for way in WAYS.values():
        try:
            found.waiting.append(one(bench, way))
        except ClientFailedError as error:
            found.failed(f"waiting, {way.name}", error)
            continue
        say(f"  waiting {way.name}: {found.waiting[-1].per_second:,.0f} records/s")


def one(bench: Bench, way: Way) -> Waiting:
    """One process."""
    (line,) = run_client(way.command(bench), bench.cores.client, bench.timeout)
    samples = line["samples"]
    rates = over_windows(samples, "records", "at")
    if samples[-1]["records"] >= TOPICS[way.partitions].records or not min(rates):
        raise ClientFailedError(f"its windows did not all see records: {samples}")
    return Waiting(
        way.name,
        way.title,
        way.partitions,
        typical(samples, "records", "at"),
        min(rates),
        max(rates),
        1e6 * typical(samples, "cpu", "records"),
    )
