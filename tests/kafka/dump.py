"""What a broker says of the batches that a producer wrote: Kafka's DumpLogSegments over the files on a node's disk.

The embedded brokers have no such files. There, aiokafka looks into the batches that a Fetch brings.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from aiokafka.record.memory_records import MemoryRecords

from .apache import ApacheCluster
from .cluster import KafkaCluster
from .jars import KafkaJars
from .java import run, tools
from .stored_batches import stored_bytes

BATCH = re.compile(r"^baseOffset: ")
PAIR = re.compile(r"(\w+): (\S+)")
# What it says of what it does not like: a batch by isvalid, and the rest in its own words.
COMPLAINTS = ("isvalid: false", "Non-consecutive", "mismatch", "Exception", "rror", "orrupt", "invalid")


@dataclass(frozen=True)
class DumpedBatch:
    """A batch of a dump; `records` are the offsets that the deep iteration found in it."""

    partition: int
    base_offset: int
    last_offset: int
    count: int
    base_sequence: int
    producer_id: int
    producer_epoch: int
    codec: str
    records: list[int] = field(default_factory=list)


def dump(cluster: KafkaCluster, topic: str, node: int = 1, timeout: float = 120.0) -> list[DumpedBatch]:
    """All batches of a topic on one node, read deeply; AssertionError for the first complaint about any of them."""
    if not isinstance(cluster, ApacheCluster):
        return [batch for partition in cluster.admin.partitions(topic) for batch in _fetched(cluster, topic, partition)]
    directories = sorted((cluster.nodes[node].directory / "data").glob(f"{topic}-*"))
    segments = [path for directory in directories for path in sorted(directory.glob("*.log"))]
    assert segments, f"node {node} has nothing of {topic}"
    jars = cluster.jars
    command = ["java", "-Xmx512m", "-XX:TieredStopAtLevel=1", "-Xshare:auto", "-cp", f"{jars.classpath}:{tools(jars)}"]
    command += [_program(jars), "--deep-iteration", "--files", ",".join(map(str, segments))]
    return _parse(run(command, timeout=timeout).decode())


def _fetched(cluster: KafkaCluster, topic: str, partition: int) -> Iterator[DumpedBatch]:
    for batch, content in stored_bytes(cluster, topic, partition):
        records = MemoryRecords(content)
        read = records.next_batch()
        assert read is not None
        assert read.validate_crc(), f"the CRC of partition {partition} at {batch.base_offset} is wrong"
        yield DumpedBatch(
            partition,
            batch.base_offset,
            batch.last_offset,
            batch.count,
            batch.base_sequence,
            batch.producer_id,
            batch.producer_epoch,
            batch.codec,
            [record.offset for record in read],
        )


def _program(jars: KafkaJars) -> str:
    major, minor, _ = jars.version.split(".")
    return (
        "org.apache.kafka.tools.DumpLogSegments"
        if (int(major), int(minor)) >= (4, 2)
        else "kafka.tools.DumpLogSegments"
    )


def _parse(text: str) -> list[DumpedBatch]:
    found: list[DumpedBatch] = []
    partition = -1
    for line in text.splitlines():
        if line.startswith("Dumping "):
            partition = int(Path(line.split()[1]).parent.name.rpartition("-")[2])
            continue
        for complaint in COMPLAINTS:
            assert complaint not in line, f"DumpLogSegments of partition {partition}: {line}"
        pairs = dict(PAIR.findall(line))
        if BATCH.match(line):
            assert pairs["isvalid"] == "true", line
            found.append(
                DumpedBatch(
                    partition,
                    int(pairs["baseOffset"]),
                    int(pairs["lastOffset"]),
                    int(pairs["count"]),
                    int(pairs["baseSequence"]),
                    int(pairs["producerId"]),
                    int(pairs["producerEpoch"]),
                    pairs["compresscodec"],
                )
            )
        elif line.startswith("| offset: "):
            found[-1].records.append(int(pairs["offset"]))
    return found
