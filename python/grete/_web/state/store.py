"""Everything that the pages show and that does not have to be asked of brokers."""

import json
import threading
from collections.abc import Iterator

from grete._web.state.audit import AuditLog, parse_audit
from grete._web.state.errors import ErrorLog, parse_error
from grete._web.state.fleet import Fleet
from grete._web.state.lag_history import LagHistory
from grete._web.state.report import InvalidReportError, Report, count, load_object, parse_report, parse_settings
from grete._web.state.series import FINE, MINUTE, NAMES, TIERS, Series, Tier

_SETTINGS_SUFFIX = b"#settings"
# Seconds after the end of a minute for reports of it that are late.
_LATE = 15
_FINE_PER_MINUTE = MINUTE.step // FINE.step


class Store:
    """State of all processes. Times are milliseconds since 1970.

    The collector's thread adds, threads of requests read. `lock` is held for an addition, and for reads of more than
    one value.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.fleet = Fleet()
        self.errors = ErrorLog()
        self.audit = AuditLog()
        self.series = Series()
        self.lags = LagHistory()
        self.refused = 0
        """Records that are no reports."""
        self.reports = 0
        self._next_errors: dict[int, int] = {}
        self._next_audits: dict[int, int] = {}
        self.kept_until = 0
        """End of the last minute that was kept, in seconds since 1970. Counts before it are in the series already."""

    def add_report(self, key: bytes | None, value: bytes | None, at: int, now: int, *, live: bool = True) -> None:
        """Adds a record of `grete.reports` with its timestamp. `live`: it was written just now, whatever the clock
        of its machine says.
        """
        if key is None or value is None:
            return
        try:
            if key.endswith(_SETTINGS_SUFFIX):
                settings = parse_settings(value)
                with self.lock:
                    self.fleet.add_settings(settings)
                return
            report = parse_report(value)
        except InvalidReportError:
            self.refused += 1
            return
        with self.lock:
            self._fold(report, now if live else min(at, now))

    def _fold(self, report: Report, at: int) -> None:
        self.reports += 1
        before = self.fleet.get(report.facts.id)
        cpu_before = before.report.cpu if before is not None else None
        since = before.seen if before is not None else at - report.every
        traffic_before = before.report.traffic if before is not None else report.traffic
        done = self.fleet.add(report, at)
        if at / 1000 <= self.kept_until:
            return  # a restart reads again what is in the kept series
        self.series.count(
            max(since / 1000, float(self.kept_until)),
            at / 1000,
            {
                "records": done.records,
                "jobs": done.jobs,
                "failures": done.failures,
                "retries": done.retries,
                "dead_letters": done.dead_letters,
                "duration": done.duration,
                "cpu": max(0, (report.cpu or 0) - cpu_before) if cpu_before is not None else 0,
                **{
                    name: max(0, report.traffic[name] - traffic_before[name])
                    for name in ("fetched_bytes", "produced_records")
                },
            },
        )

    def add_error(self, value: bytes | None, place: tuple[int, int]) -> None:
        """Adds a record of `grete.errors`, once."""
        partition, offset = place
        if offset < self._next_errors.get(partition, 0):
            return
        self._next_errors[partition] = offset + 1
        try:
            record = parse_error(value or b"", place)
        except InvalidReportError:
            self.refused += 1
            return
        with self.lock:
            self.errors.add(record)

    def add_audit(self, value: bytes | None, place: tuple[int, int]) -> None:
        """Adds a record of `grete.audit`, once."""
        partition, offset = place
        if offset < self._next_audits.get(partition, 0):
            return
        self._next_audits[partition] = offset + 1
        try:
            entry = parse_audit(value or b"")
        except InvalidReportError:
            self.refused += 1
            return
        with self.lock:
            self.audit.add(entry)

    def measure(self, now: int) -> None:
        """Adds the present state of all processes to the series. Called once each few seconds."""
        with self.lock:
            self.fleet.forget_ended(now)
            reports = [process.report for process in self.fleet.alive(now)]
            oldest = [lane.oldest or 0 for report in reports for lane in report.lanes]
            self.series.measure(
                now / 1000,
                {
                    "lag": sum(report.lag or 0 for report in reports),
                    "oldest": max(oldest, default=0),
                    "rss": sum(report.rss or 0 for report in reports),
                    "processes": len(reports),
                    "workers": sum(report.workers or 0 for report in reports),
                    "busy": sum(report.busy or 0 for report in reports),
                    "gil_wait": max((report.gil_wait or 0 for report in reports), default=0),
                },
            )
            self.series.expire(now / 1000)
            if self.lags.is_due(now // 1000):
                lags = {
                    (lane.group, lane.topic, lane.partition): lane.lag
                    for _, lane in self.fleet.lanes()
                    if lane.lag is not None
                }
                self.lags.sample(now // 1000, lags)

    def due_history(self, now: int) -> Iterator[tuple[bytes, bytes | None]]:
        """Yields the records of `grete.history` that must be written now: complete buckets, as key and value.

        A record of a minute has its 12 buckets of 5 seconds, too.
        """
        until = (now // 1000 - _LATE) // MINUTE.step * MINUTE.step
        with self.lock:
            first = max(self.kept_until, until - 10 * MINUTE.step) if self.kept_until else until - MINUTE.step
            for start in range(first, until, MINUTE.step):
                for tier in TIERS[1:]:
                    if (start + MINUTE.step) % tier.step == 0:
                        yield from self._kept(tier, start + MINUTE.step - tier.step)
            self.kept_until = max(self.kept_until, until)

    def _kept(self, tier: Tier, start: int) -> Iterator[tuple[bytes, bytes | None]]:
        row = self.series.row(tier, start)
        if row is not None:
            value: dict[str, object] = {"v": 1, "start": start, "names": NAMES, "row": _rounded(row)}
            if tier is MINUTE:
                fine = (self.series.row(FINE, start + number * FINE.step) for number in range(_FINE_PER_MINUTE))
                value["fine"] = [None if one is None else _rounded(one) for one in fine]
            # A slot is used again: what it had is too old by then.
            yield history_key(tier, start), json.dumps(value, separators=(",", ":")).encode()

    def restore(self, key: bytes | None, value: bytes | None, now: int) -> None:
        """Adds a record of `grete.history`."""
        step = (key or b"").partition(b"/")[0]
        tier = next((tier for tier in TIERS[1:] if str(tier.step).encode() == step), None)
        if tier is None or value is None:
            return
        try:
            content = load_object(value)
            start = count(content.get("start")) or 0
            names, row, fine = content["names"], content["row"], content.get("fine", [])
            if start % tier.step or not now / 1000 - tier.kept <= start <= now / 1000:
                return
            with self.lock:
                self.series.restore(tier, start, _by_name(names, row))
                if tier is MINUTE:
                    self.kept_until = max(self.kept_until, start + MINUTE.step)
                    for number, one in enumerate(fine[:_FINE_PER_MINUTE]):
                        if one is not None:
                            self.series.restore(FINE, start + number * FINE.step, _by_name(names, one))
        except (InvalidReportError, KeyError, TypeError, ValueError, AttributeError):
            self.refused += 1


def history_key(tier: Tier, start: int) -> bytes:
    """Returns the key of a bucket. Keys repeat when a bucket is too old, so that the topic has a bounded size."""
    return f"{tier.step}/{start // tier.step % (tier.kept // tier.step)}".encode()


def _rounded(row: list[float]) -> list[float]:
    return [int(one) if one == int(one) else round(one, 3) for one in row]


def _by_name(names: list[str], row: list[float]) -> list[float]:
    """Returns the numbers in the present order: another version may have had other series."""
    found = dict(zip(names, map(float, row), strict=False))
    return [found.get(name, 0.0) for name in NAMES]
