"""One partition of eight does not come back from its handler: what becomes of the other seven?"""

from __future__ import annotations

import sys
from typing import Any

from benchmarks.common.progress import say
from benchmarks.common.run import ClientFailedError, run_client

from .measurement import Bench, Measurement, Stuck
from .waiting import TOPICS

WORKERS = 16
STALL_AFTER = "5s"
TOPIC = TOPICS[8]
PARTITIONS = TOPIC.partitions


def measure(bench: Bench, found: Measurement, seconds: float) -> None:
    """One process."""
    before = min(seconds, 10.0)
    settings = {"before": before, "stuck": seconds, "workers": WORKERS, "stall_after": STALL_AFTER}
    words = [sys.executable, "-m", "benchmarks.process.clients.grete_stuck", bench.broker.bootstrap]
    command = [*words, TOPIC.name, str(PARTITIONS), "0", *(f"{name}={value}" for name, value in settings.items())]
    try:
        (line,) = run_client(command, bench.cores.client, bench.timeout + seconds)
        found.stuck.append(result(line, seconds))
    except ClientFailedError as error:
        found.failed("stuck", error)
        return
    say(f"  stuck: the others keep {found.stuck[-1].during / found.stuck[-1].before:.1%}")


def result(line: dict[str, Any], seconds: float) -> Stuck:
    """Rates of the seven, and what was said about the eighth."""
    start, edge, hung, last = line["samples"]
    others = [str(partition) for partition in range(1, PARTITIONS)]

    def rate(first: dict[str, Any], second: dict[str, Any], partition: str) -> float:
        records = second["partitions"].get(partition, 0) - first["partitions"].get(partition, 0)
        return float(records / (second["at"] - first["at"]))

    if hung["partitions"].get("0") != last["partitions"].get("0"):
        raise ClientFailedError("partition 0 was not stuck")
    before = {partition: rate(start, edge, partition) for partition in others}
    during = {partition: rate(hung, last, partition) for partition in others}
    if not min(before.values()):
        raise ClientFailedError(f"a partition did nothing before: {before}")
    hooks = line["hooks"]
    # An instance that goes, or one more than there are partitions, is a rebalance.
    rebalances = hooks.get("revoked", 0) + max(hooks["initialize"] - PARTITIONS, 0)
    name = f"{TOPIC.name}[0]"
    # Behind the first line comes the stack.
    logged = [stall["message"].partition("\n")[0] for stall in line["logged"] if str(stall["partition"]) == "0"]
    shown = [text for text in line["statistics"] if name in text]
    return Stuck(
        seconds,
        sum(before.values()),
        sum(during.values()),
        min(during[partition] / before[partition] for partition in others),
        rebalances,
        logged[0] if logged else "",
        shown[0] if shown else "",
    )
