"""Who wrote the records that a reader of committed records has twice: batches from the logs of brokers."""

from __future__ import annotations

import subprocess

from tests.integration.exactly_once.reading import committed_messages
from tests.kafka import java
from tests.kafka.apache import ApacheCluster
from tests.kafka.load import index_of

# Offsets before and behind a copy whose batches are shown: the markers of transactions are there, too.
AROUND = 30


def describe(kafka: ApacheCluster, topic: str, partitions: int) -> str:
    """Returns, for each partition with repeated records, the runs of both copies and the batches around their ends."""
    places: dict[int, list[int]] = {}
    for message in committed_messages(kafka, topic, partitions, seconds=120.0):
        places.setdefault(index_of(message.value() or b""), []).append(message.offset() or 0)
    rows = []
    for partition in range(partitions):
        of_partition = sorted((at, offsets) for at, offsets in places.items() if at % partitions == partition)
        twice = [(at // partitions, offsets) for at, offsets in of_partition if len(offsets) > 1]
        if twice:
            (first, at_first), (last, at_last) = twice[0], twice[-1]
            rows.append(f"partition {partition}: {len(twice)} of {first}..{last}, copies {at_first}..{at_last}")
            rows += batches(kafka, topic, partition, {*at_first, *at_last})
    return "\n".join(rows)


def batches(kafka: ApacheCluster, topic: str, partition: int, offsets: set[int]) -> list[str]:
    """Returns the batches within AROUND of `offsets`, as DumpLogSegments of the leader's log prints them."""
    node = kafka.admin.leaders(topic)[partition]
    logs = sorted((kafka.nodes[node].directory / "data" / f"{topic}-{partition}").glob("*.log"))
    command = ["java", "-XX:TieredStopAtLevel=1", "-cp", f"{kafka.jars.classpath}:{java.tools(kafka.jars)}"]
    command += ["kafka.tools.DumpLogSegments", "--files", ",".join(map(str, logs))]
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    found = []
    for line in result.stdout.splitlines():
        fields = line.split()
        if "baseOffset:" not in fields:
            continue
        first, last = (int(fields[fields.index(name) + 1]) for name in ("baseOffset:", "lastOffset:"))
        if any(first - AROUND <= offset <= last + AROUND for offset in offsets):
            found.append("    " + line[:330])
    return found or [f"    no batches: {result.stderr[-500:]}"]
