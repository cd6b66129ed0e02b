"""Processes of all Apps: the last report of each, and whether the process still lives."""

from collections.abc import Iterator
from dataclasses import dataclass

from grete._web.state.report import Facts, Lane, Report, Settings, Totals

DEAD_AFTER = 2.5
"""Intervals without a report after which a process counts as dead."""
_DEAD_AFTER_AT_LEAST = 5_000
_MAX_PROCESSES = 5_000
# Milliseconds for which a process that has ended is listed.
KEPT = 24 * 3_600_000
_GIL_WAIT = 1_000
# Reasons for which the program itself asked a partition to wait.
_INTENDED = frozenset({"paused", "quiet", "leaving", "delay", "rate_limit", "max_wait"})


@dataclass(slots=True)
class Process:
    """A process with its last report. `seen`: time of the report by the clock of the web process, in milliseconds."""

    report: Report
    seen: int
    first_seen: int
    settings: Settings | None = None
    rate: float = 0.0
    """Records per second, between the last two reports."""
    cpu: float | None = None
    """Share of one core, between the last two reports."""

    @property
    def facts(self) -> Facts:
        """Identity of the process."""
        return self.report.facts

    def state(self, now: int) -> str:
        """Returns "dead", or the state that the process reports."""
        if self.report.state != "stopped" and now - self.seen > self.dead_after:
            return "dead"
        return self.report.state

    @property
    def dead_after(self) -> float:
        """Milliseconds without a report after which the process counts as dead."""
        return max(DEAD_AFTER * self.report.every, _DEAD_AFTER_AT_LEAST)

    def is_alive(self, now: int) -> bool:
        """Returns whether the process runs."""
        return self.state(now) not in ("dead", "stopped")

    def problems(self, now: int) -> list[str]:
        """Returns what is wrong with the process, for people."""
        if self.state(now) == "dead":
            return [
                f"no report for {(now - self.seen) / 1000:.0f} s: the process has died, hangs, or cannot reach Kafka"
            ]
        if self.report.state == "stopped":
            return []
        return [text for _, text in self.report.problems] + [one.problem for one in self.report.groups if one.problem]


class Fleet:
    """All processes by id. The oldest ones that have ended are forgotten first."""

    def __init__(self) -> None:
        self._processes: dict[str, Process] = {}
        self._early_settings: dict[str, Settings] = {}

    def __iter__(self) -> Iterator[Process]:
        return iter(self._processes.values())

    def __len__(self) -> int:
        return len(self._processes)

    def get(self, process_id: str) -> Process | None:
        """Returns a process; None: unknown."""
        return self._processes.get(process_id)

    def alive(self, now: int) -> list[Process]:
        """Returns the processes that run."""
        return [process for process in self._processes.values() if process.is_alive(now)]

    def add(self, report: Report, seen: int) -> Totals:
        """Adds a report. Returns what was done since the last one of the process; nothing if that is unknown."""
        before = self._processes.get(report.facts.id)
        if before is None:
            settings = self._early_settings.pop(report.facts.id, None)
            self._processes[report.facts.id] = Process(report, seen, seen, settings)
            self._bound()
            return report.totals if report.seq == 0 else Totals()
        if report.seq < before.report.seq:
            return Totals()  # an older copy, read again
        done = _difference(before.report.totals, report.totals)
        elapsed = (report.at - before.report.at) / 1000
        if elapsed > 0:
            before.rate = done.records / elapsed
            if report.cpu is not None and before.report.cpu is not None:
                before.cpu = max(0, report.cpu - before.report.cpu) / 1000 / elapsed
        before.report, before.seen = report, seen
        return done

    def add_settings(self, settings: Settings) -> None:
        """Adds the settings of a process, which may come before its first report."""
        process = self._processes.get(settings.facts.id)
        if process is not None:
            process.settings = settings
        elif len(self._early_settings) < _MAX_PROCESSES:
            self._early_settings[settings.facts.id] = settings

    def forget_ended(self, now: int) -> None:
        """Removes processes that ended long ago."""
        gone = [name for name, one in self._processes.items() if not one.is_alive(now) and now - one.seen > KEPT]
        for name in gone:
            del self._processes[name]

    def lanes(self) -> Iterator[tuple[Process, Lane]]:
        """Yields the lanes of the processes that have not stopped."""
        for process in self._processes.values():
            if process.report.state != "stopped":
                yield from ((process, lane) for lane in process.report.lanes)

    def _bound(self) -> None:
        if len(self._processes) > _MAX_PROCESSES:
            oldest = min(self._processes.values(), key=lambda process: process.seen)
            del self._processes[oldest.facts.id]


def _difference(before: Totals, after: Totals) -> Totals:
    return Totals(*(max(0, getattr(after, name) - getattr(before, name)) for name in Totals.__dataclass_fields__))


def stall_reason(process: Process, lane: Lane, now: int) -> tuple[str, str]:
    """Returns a kind ("ok", "busy", "wait", "bad") and the reason why a lane does not move, or what it does."""
    state, report = process.state(now), process.report
    if state == "dead":
        return "bad", f"its process has not reported for {(now - process.seen) / 1000:.0f} s"
    if lane.failure:
        return "bad", f"cannot be read: {lane.failure}"
    if report.gil_wait is not None and report.gil_wait > _GIL_WAIT:
        return "bad", f"the GIL of its process has been held for {report.gil_wait / 1000:.1f} s"
    if lane.stalled and lane.running_for is not None:
        return "bad", f"{lane.handler} has run for {lane.running_for / 1000:.0f} s"
    if lane.stall:
        kind = "wait" if lane.waits_for in _INTENDED else "bad"
        return kind, f"has not moved for {lane.unmoved_for / 1000:.0f} s: {lane.stall}"
    group = next((one for one in report.groups if one.group == lane.group), None)
    if group is not None and not group.ready:
        return "wait", f"the member is {group.state} since {group.since:.0f} s"
    if state in ("quiet", "stopping"):
        return "wait", f"its process is {state}"
    return _work(lane, report)


def _work(lane: Lane, report: Report) -> tuple[str, str]:
    if lane.attempt > 1 and lane.paused_for is not None:
        return "wait", f"attempt {lane.attempt} at {_offset(lane)} begins in {lane.paused_for / 1000:.1f} s"
    if lane.running_for is not None:
        attempt = f", attempt {lane.attempt}" if lane.attempt > 1 else ""
        return "busy", f"{lane.handler} runs for {lane.running_for / 1000:.1f} s{attempt}"
    if lane.state == "paused":
        return "wait", "paused" if lane.paused_for is None else f"paused for {lane.paused_for / 1000:.1f} s"
    if lane.state == "ready":
        busy = f" ({report.busy} of {report.workers} busy)" if report.workers else ""
        return "wait", f"waits for a worker{busy}"
    if lane.lag == 0:
        return "ok", "up to date"
    if lane.waits_for in _NO_DATA:
        return "wait", _NO_DATA[lane.waits_for]
    if lane.lag is None:
        return "wait", "has not fetched yet"
    return "busy", "reads"


_NO_DATA = {
    "no_topic": "its topic does not exist any more",
    "no_leader": "has no leader",
    "coordinator": "its committed offset is not known yet",
    "start_offset": "its start offset is not known yet",
    "queue_limit": "holds as many bytes as one partition may",
    "memory": "the memory for fetched records is full",
    "no_connection": "its leader is not connected",
    "refused": "its leader returns no records",
    "throttled": "its leader throttles the client",
    "open_transaction": "a transaction is open",
    "session": "no heartbeat is acknowledged",
    "predecessor": "jobs of its former assignment still run",
    "dedup_history": "the ids of earlier records are being read",
    "unmarked": "waits for marks",
    "halted": "a job has ended with an exception that stops the process",
}


def _offset(lane: Lane) -> str:
    return f"offset {lane.committable if lane.committable is not None else lane.position}"
