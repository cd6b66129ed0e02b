"""Journal of handler runs, for the report of a failed test."""

import collections
from collections.abc import Callable
from typing import NamedTuple

from grete.app import App
from grete.instrumentation import Event
from grete.testing._kafka.cluster import Cluster
from grete.testing._records import Record

_MAX_ROWS = 60


class _Job(NamedTuple):
    topic: str
    partition: int
    first: int
    last: int
    attempt: int
    handler: str
    group: str


class Journal:
    """Runs of the handlers of Apps, by record."""

    def __init__(self) -> None:
        self._jobs: list[_Job] = []
        self._runs: collections.Counter[tuple[str, str, int, int]] = collections.Counter()
        self._by_record: set[str] = set()
        self._dead: set[tuple[str, int, int]] = set()

    def watch(self, app: App) -> None:
        """Records the runs of an App."""
        for event, listener in self._listeners():
            app.monitor.subscribe(event, listener)

    def unwatch(self, app: App) -> None:
        """Ends `watch`."""
        for event, listener in self._listeners():
            app.monitor.unsubscribe(event, listener)

    def _listeners(self) -> tuple[tuple[str, Callable[[Event], None]], ...]:
        return (
            ("job.started", self._on_job),
            ("message.process", self._on_message),
            ("consumer.dead_letter", self._on_dead_letter),
        )

    def _on_job(self, event: Event) -> None:
        self._jobs.append(
            _Job(
                event["topic"],
                event["partition"],
                event["first_offset"],
                event["last_offset"],
                event["attempt"],
                event["handler"],
                event["group"],
            )
        )

    def _on_message(self, event: Event) -> None:
        self._by_record.add(event["handler"])
        self._runs[event["handler"], event["topic"], event["partition"], event["offset"]] += 1

    def _on_dead_letter(self, event: Event) -> None:
        if event.payload.get("offset") is not None and "hook" not in event.payload:
            self._dead.add((event["topic"], event["partition"], event["offset"]))

    def runs(self, topic: str, partition: int, offset: int) -> int:
        """Returns how many times handlers were called with a record."""
        return sum(runs for runs, _ in self._by_handler(topic, partition, offset).values())

    def _by_handler(self, topic: str, partition: int, offset: int) -> dict[tuple[str, str], tuple[int, int]]:
        """Returns number of runs and last attempt by handler and group."""
        found: dict[tuple[str, str], tuple[int, int]] = {}
        for job in self._jobs:
            if (job.topic, job.partition) == (topic, partition) and job.first <= offset <= job.last:
                runs, _ = found.get((job.handler, job.group), (0, 0))
                found[job.handler, job.group] = runs + 1, job.attempt
        for handler, group in found:
            if handler in self._by_record:
                # Functions that get records one by one may stop before this one.
                found[handler, group] = self._runs[handler, topic, partition, offset], found[handler, group][1]
        return found

    def table(self, cluster: Cluster, read: list[tuple[str, str]]) -> str:
        """Returns where each record is, as text; "": no records. `read`: pairs of topic and group that Apps read."""
        rows: list[tuple[str, ...]] = [("topic", "partition", "offset", "key", "group", "runs", "attempt", "state")]
        hidden = 0
        for topic, group in dict.fromkeys(read):
            committed = cluster.committed(group)
            for record in cluster.records(topic):
                if len(rows) > _MAX_ROWS:
                    hidden += 1
                else:
                    rows.append(self._row(record, group, committed))
        if len(rows) == 1:
            return ""
        widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
        lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
        return "\n".join(lines + ([f"... and {hidden} more"] if hidden else []))

    def _row(self, record: Record, group: str, committed: dict[tuple[str, int], int]) -> tuple[str, ...]:
        topic, partition, offset = record.topic or "", record.partition or 0, record.offset or 0
        calls = [call for (_, of), call in self._by_handler(topic, partition, offset).items() if of == group]
        runs, attempt = calls[0] if calls else (0, 0)
        state = "waits" if runs == 0 else "handled, not committed"
        if (topic, partition, offset) in self._dead:
            state = "dead letter"
        if committed.get((topic, partition), -1) > offset:
            state = "dead letter, committed" if state == "dead letter" else "committed"
        key = "-" if record.key is None else repr(record.key)[1:][:24]
        return topic, str(partition), str(offset), key, group, str(runs), str(attempt or "-"), state
