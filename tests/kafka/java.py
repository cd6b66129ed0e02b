"""Kafka's own Java clients as foreign producers and group members: small programs, compiled on first use."""

from __future__ import annotations

import base64
import hashlib
import json
import queue
import shutil
import subprocess
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from .apache import ApacheCluster
from .cluster import KafkaCluster
from .jars import HERE, KafkaJars, exclusive
from .processes import end, spawn
from .waiting import Deadline

SOURCES = HERE / "java"
LOG4J2 = (
    "status = error\nrootLogger.level = warn\nrootLogger.appenderRef.err.ref = E\n"
    "appender.err.type = Console\nappender.err.name = E\nappender.err.target = SYSTEM_ERR\n"
    "appender.err.layout.type = PatternLayout\nappender.err.layout.pattern = %-5p %m%n%xEx\n"
)


def tools(jars: KafkaJars) -> Path:
    """The directory of the compiled programs; compiles them when a source has changed."""
    sources = sorted(SOURCES.glob("*.java"))
    digest = hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()[:16]
    directory = jars.directory / f"tools-{digest}"
    if directory.exists():
        return directory
    with exclusive(jars.directory / "tools.lock"):
        if directory.exists():
            return directory
        for old in jars.directory.glob("tools-*"):
            shutil.rmtree(old, ignore_errors=True)
        fresh = jars.directory / "tools.new"
        command = ["javac", "-nowarn", "-d", str(fresh), "-cp", jars.classpath, *map(str, sources)]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"javac failed:\n{done.stdout}")
        (fresh / "log4j2.properties").write_text(LOG4J2)
        fresh.rename(directory)
    return directory


def command(
    cluster: KafkaCluster, program: str, settings: Mapping[str, object], options: Mapping[str, object]
) -> list[str]:
    """The command line of a program; `settings` are the client's, `options` the program's own."""
    assert isinstance(cluster, ApacheCluster), "Java comes with Apache Kafka: mark the test as apache"
    jars = cluster.jars
    kafka = {"bootstrap.servers": cluster.bootstrap_servers, **settings}
    line = ["java", "-Xmx512m", "-XX:TieredStopAtLevel=1", "-Xshare:auto"]
    line += ["-cp", f"{jars.classpath}:{tools(jars)}", program]
    line += [f"{name}={value}" for name, value in options.items()]
    return line + [f"kafka.{name}={value}" for name, value in kafka.items()]


def run(line: list[str], *, timeout: float, text: bytes | None = None) -> bytes:
    """Run a command line to its end, with `text` as its standard input; returns what it wrote."""
    process = spawn(
        line,
        stdin=subprocess.DEVNULL if text is None else subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        output, errors = process.communicate(text, timeout=timeout)
    except subprocess.TimeoutExpired:
        end(process)
        raise
    if process.returncode != 0:
        error_text = errors.decode(errors="replace")
        raise RuntimeError(f"{line[0]} ... {line[-1]} ended with {process.returncode}:\n{error_text}")
    return output


def produce(
    cluster: KafkaCluster,
    topic: str,
    count: int,
    *,
    codec: str = "none",
    properties: Mapping[str, object] | None = None,
    timeout: float = 120.0,
    **options: object,
) -> dict[str, int]:
    """Write records by Kafka's own producer; the options are those of JavaProducer.java. {"produced", "aborted"}."""
    settings = {"compression.type": codec, **(properties or {})}
    line = command(cluster, "JavaProducer", settings, {"topic": topic, "count": count, **options})
    output = run(line, timeout=timeout)
    answer: dict[str, int] = json.loads(output)
    return answer


def partitions_of(cluster: KafkaCluster, keys: Sequence[bytes], counts: Sequence[int]) -> list[list[int]]:
    """Where Kafka's own producer puts each key, for each count of partitions."""
    line = command(cluster, "JavaPartitions", {}, {"counts": ",".join(map(str, counts))})
    text = b"".join(base64.b64encode(key) + b"\n" for key in keys)
    rows = run(line, timeout=60.0, text=text).decode().splitlines()
    return [[int(part) for part in row.split()] for row in rows]


def judge(
    cluster: KafkaCluster, topic: str, what: str, *, seconds: int = 120, **settings: object
) -> list[dict[str, Any]]:
    """What JavaReader.java finds in a topic: "records" or "sequence"; `settings` are the consumer's."""
    kafka = {name.replace("_", "."): value for name, value in settings.items()}
    line = command(cluster, "JavaReader", kafka, {"topic": topic, "what": what, "seconds": seconds})
    rows = [json.loads(row) for row in run(line, timeout=seconds + 30.0).splitlines()]
    assert rows.pop() == {"done": True}
    return rows


class JavaConsumer:
    """A running JavaConsumer.java; its JSON lines come as dictionaries, in order."""

    program = "JavaConsumer"
    options: Mapping[str, object] = {}

    def __init__(self, cluster: KafkaCluster, group: str, *topics: str, **settings: object) -> None:
        kafka = {"group.id": group, **{name.replace("_", "."): value for name, value in settings.items()}}
        line = command(cluster, self.program, kafka, {"topics": ",".join(topics), **self.options})
        self.process = spawn(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.events: list[dict[str, Any]] = []
        self._queue: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read, name="java-consumer-output", daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._queue.put(json.loads(line))
        self._queue.put(None)

    def next(self, timeout: float) -> dict[str, Any] | None:
        """The next line, or None when the program has ended; queue.Empty after `timeout`."""
        event = self._queue.get(timeout=timeout)
        if event is not None:
            self.events.append(event)
        return event

    def until(self, name: str, timeout: float) -> dict[str, Any]:
        """Read lines until one with this event comes."""
        deadline = Deadline(timeout)
        while (event := self.next(deadline.left)) is not None:
            if event["event"] == name:
                return event
        raise AssertionError(f"JavaConsumer ended without {name!r}")

    def drain(self) -> None:
        """Take what has come so far into `events`."""
        while not self._queue.empty():
            if self.next(0) is None:
                self._queue.put(None)
                return

    def offsets(self) -> dict[tuple[str, int], list[int]]:
        """{(topic, partition): offsets in the order in which they came}, of the events taken so far."""
        found: dict[tuple[str, int], list[int]] = {}
        for event in self.events:
            if event["event"] == "records":
                rows = found.setdefault((event["topic"], event["partition"]), [])
                for first, last in event["runs"]:
                    rows.extend(range(first, last + 1))
        return found

    def leave(self, timeout: float = 30.0) -> None:
        """Let it leave the group in order; all its events are in `events` afterwards."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        deadline = Deadline(timeout)
        while self.next(deadline.left) is not None:
            pass
        self.process.wait(deadline.left)

    def kill(self) -> None:
        end(self.process)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        self._reader.join(10.0)
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                stream.close()


class JavaShareConsumer(JavaConsumer):
    """A running JavaShareConsumer.java: a line for each poll with records, with their values."""

    program = "JavaShareConsumer"
    options: Mapping[str, object] = {"values": "true"}
