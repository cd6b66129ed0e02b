"""Targets of Grete, and their results."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from benchmarks.common.target_results import TargetResult
from benchmarks.consume.rows import Row, rows

from .measurement import Measurement

# Voluntary context switches of a worker per job beyond its handler's, and of an idle process per second.
SWITCHES_PER_JOB = 2.0
IDLE_WAKEUPS = 5.0
# How much slower jobs may become beside blocked background threads.
CROWD = 0.98
KEY_OVER_PARTITION = 8.0
KEPT = 0.95


@dataclass(frozen=True)
class Target:
    """`subject` must reach `factor` times the records per CPU second of `peer`."""

    part: str
    subject: str
    peer: str
    factor: float

    def check_targets(self, found: Mapping[tuple[str, str], Row]) -> TargetResult:
        """The ratio, if both were measured."""
        subject, peer = found.get((self.part, self.subject)), found.get((self.part, self.peer))
        measured = None if subject is None or peer is None else subject.per_cpu_second / peer.per_cpu_second
        return TargetResult(
            f"{self.part}, records per CPU second: {self.subject} vs {self.peer}", ">=", self.factor, measured
        )


def _each(part: str, subjects: tuple[str, ...], factors: Mapping[str, float]) -> Iterator[Target]:
    for subject in subjects:
        for peer, factor in factors.items():
            yield Target(part, subject, peer, factor)


NOOP = {"faststream-aiokafka": 200.0, "faststream-confluent": 200.0, "quixstreams": 25.0, "confluent": 3.0}
JSON = {"faststream-aiokafka": 100.0, "faststream-confluent": 100.0, "quixstreams": 12.0, "confluent-json": 4.0}
TARGETS = (
    *_each("noop", ("grete-message", "grete-rows"), NOOP),
    Target("noop", "grete-columns", "confluent", 10.0),
    *_each("json", ("grete-payload", "grete-payload-rows"), JSON),
)


def check_targets(found: Measurement) -> list[TargetResult]:
    """Every target of the parts that were run."""
    medians = rows(found.runs)
    parts = {part for part, _ in medians}
    results = [target.check_targets(medians) for target in TARGETS if target.part in parts]
    if found.waiting:
        results.append(_waiting(found))
    results += [
        TargetResult(
            f"wakeups, {row.title}: of a worker per job beyond its handler's", "<=", SWITCHES_PER_JOB, row.worker
        )
        for row in found.wakeups
    ]
    alone = next((row for row in found.crowds if row.threads == 0), None)
    for row in found.crowds:
        if alone is not None and row is not alone:
            share = row.jobs_per_cpu_second / alone.jobs_per_cpu_second
            results.append(
                TargetResult(f"wakeups, jobs beside {row.threads} background threads vs none", ">=", CROWD, share)
            )
    results += [
        TargetResult(f"wakeups, idle, {row.title}: per second", "<=", IDLE_WAKEUPS, row.wakeups_per_second)
        for row in found.idle
    ]
    for loop in dict.fromkeys(run.name for run in found.transforms):
        ahead = max(run.ahead for run in found.transforms if run.name == loop)
        results.append(TargetResult(f"transform, {loop}: committed before it was written", "<=", 0, ahead))
    for stuck in found.stuck:
        kept = stuck.during / stuck.before
        results += [
            TargetResult("stuck, the other partitions' rate over that before", ">=", KEPT, kept),
            TargetResult("stuck, the worst of them", ">=", KEPT, stuck.worst),
            TargetResult("stuck, rebalances", "<=", 0, stuck.rebalances),
            TargetResult("stuck, named in the log", ">=", 1, float(bool(stuck.logged))),
            TargetResult("stuck, named in App.statistics()", ">=", 1, float(bool(stuck.shown))),
        ]
    return results


def _waiting(found: Measurement) -> TargetResult:
    by_name = {row.name: row for row in found.waiting}
    key, partition = by_name.get("sync-key-1"), by_name.get("sync-partition-1")
    measured = None if key is None or partition is None else key.per_second / partition.per_second
    text = 'waiting, records per second: concurrency="key" over "partition" on one partition'
    return TargetResult(text, ">=", KEY_OVER_PARTITION, measured)
