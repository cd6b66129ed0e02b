"""Kafka's jars, from Maven Central into build/kafka/VERSION, once per checkout."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
VERSIONS = ("3.9.1", "4.1.0", "4.3.0")
DEFAULT_VERSION = "4.3.0"


def chosen_version() -> str:
    """The release that `KAFKA_VERSION` names, else the default."""
    return os.environ.get("KAFKA_VERSION") or DEFAULT_VERSION


def build_directory() -> Path:
    """Where jars, compiled tools and broker data go; `KAFKA_TEST_BUILD` moves it (several checkouts may share it)."""
    return Path(os.environ.get("KAFKA_TEST_BUILD") or ROOT / "build") / "kafka"


@contextmanager
def exclusive(path: Path) -> Iterator[None]:
    """One process at a time, across processes; the lock ends with its holder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


class KafkaJars:
    """The jars of one release and what is derived from them."""

    def __init__(self, version: str | None = None) -> None:
        self.version = version or chosen_version()
        self.directory = build_directory() / self.version
        self.libs = self.directory / "libs"

    @property
    def uses_log4j1(self) -> bool:
        return self.version.startswith(("2.", "3."))

    @property
    def classpath(self) -> str:
        return ":".join(str(jar) for jar in sorted(self.libs.glob("*.jar")))

    @property
    def clients_jar(self) -> Path:
        """kafka-clients, which also carries the protocol's JSON schemas."""
        return self.libs / f"kafka-clients-{self.version}.jar"

    def ensure(self) -> KafkaJars:
        """Bring the jars if they are not there yet."""
        stamp = self.directory / "jars.stamp"
        pom = HERE / "pom.xml"
        wanted = pom.read_text()
        if _content(stamp) == wanted:
            return self
        with exclusive(build_directory() / "jars.lock"):
            if _content(stamp) != wanted:
                self._fetch(pom)
                stamp.write_text(wanted)
        return self

    def _fetch(self, pom: Path) -> None:
        if shutil.which("mvn") is None:
            raise RuntimeError("Apache Maven is needed to bring Kafka's jars: install it (Debian: apt install maven)")
        shutil.rmtree(self.directory, ignore_errors=True)
        command = ["mvn", "-q", "-B", "-f", str(pom), f"-Dkafka.version={self.version}"]
        if self.uses_log4j1:
            command.append("-Dreload4j")
        command += ["dependency:copy-dependencies", "-DincludeScope=runtime", f"-DoutputDirectory={self.libs}"]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        if done.returncode != 0 or not self.clients_jar.exists():
            raise RuntimeError(f"Maven did not bring Kafka {self.version}:\n{done.stdout[-4000:]}")


def _content(path: Path) -> str | None:
    try:
        return path.read_text()
    except FileNotFoundError:
        return None
