"""Commands of the clients: Python with what a peer needs, and Java."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from benchmarks.common.build import HERE, OUT, ROOT, java_command, run_build
from benchmarks.common.environments import python_of
from tests.kafka import KafkaJars


@dataclass(frozen=True)
class Client:
    """One way to write the service.

    Attributes:
        module: module of `benchmarks.pipeline.clients`, or the class of a Java program.
        share: part of the records that it gets, because it is so much slower.
        peer: "" for our interpreter, the name of a list of requirements for an environment of its own, or "java" or
            "streams" for Java.
        transactions: its results are committed in transactions, together with the offsets of its group.
    """

    title: str
    module: str
    style: str
    share: float = 1.0
    peer: str = ""
    transactions: bool = False

    def command(self, bootstrap: str, python: str) -> list[str]:
        """The command line of the process; what it needs is built or installed first."""
        if self.peer == "java":
            return [*java_command(self.module), bootstrap, self.style]
        if self.peer == "streams":
            return [*streams_command(self.module), bootstrap, tempfile.mkdtemp(prefix="streams-"), self.style]
        interpreter = str(python_of("pipeline", self.peer)) if self.peer else python
        return [interpreter, "-m", f"benchmarks.pipeline.clients.{self.module}", bootstrap, self.style]

    def environment(self) -> Mapping[str, str]:
        """The variables of the process. A peer's environment imports the benchmarks, and nothing of ours."""
        return {**os.environ, "PYTHONPATH": str(ROOT)} if self.peer else os.environ


@cache
def streams_command(main: str) -> tuple[str, ...]:
    """The command that runs a class of benchmarks/pipeline/streams with Kafka Streams, brought from Maven Central."""
    here, jars = HERE / "pipeline" / "streams", KafkaJars().ensure()
    libs, classes = OUT / f"streams-{jars.version}", OUT / f"streams-classes-{jars.version}"
    if not any(libs.glob("kafka-streams-*.jar")):
        maven = ["mvn", "-q", "-B", "-f", str(here / "pom.xml"), f"-Dkafka.version={jars.version}"]
        run_build([*maven, "dependency:copy-dependencies", f"-DoutputDirectory={libs}"], "Kafka Streams")
    # Its own jars come first: the broker brings other releases of some.
    found: list[Path] = [*sorted(libs.glob("*.jar")), *sorted(jars.libs.glob("*.jar"))]
    classpath = ":".join(map(str, found))
    sources = [*sorted(here.glob("*.java")), HERE / "java" / "Invoices.java"]
    run_build(["javac", "-cp", classpath, "-d", classes, *sources], "the Kafka Streams client")
    quiet = HERE / "java" / "log4j2.properties"
    options = ["-Xms512m", "-Xmx1g", f"-Dlog4j2.configurationFile={quiet}"]
    return ("java", *options, "-cp", f"{classes}:{classpath}", main)
