"""What a node finds on disk before its first start: its directory, formatted storage, settings."""

from __future__ import annotations

import base64
import fcntl
import shutil
import subprocess
import tempfile
import uuid
from collections.abc import Mapping
from pathlib import Path

from .jars import KafkaJars, build_directory, exclusive

LOG4J2 = """\
status = error
shutdownHook = disable
rootLogger.level = info
rootLogger.appenderRef.file.ref = File
appender.file.type = File
appender.file.name = File
appender.file.fileName = ${sys:grete.log}
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d{HH:mm:ss.SSS} %-5p %m (%c{1}) [%t]%n%xEx
"""
LOG4J1 = """\
log4j.rootLogger=INFO, File
log4j.appender.File=org.apache.log4j.FileAppender
log4j.appender.File.File=${grete.log}
log4j.appender.File.layout=org.apache.log4j.PatternLayout
log4j.appender.File.layout.ConversionPattern=%d{HH:mm:ss,SSS} %-5p %m (%c{1}) [%t]%n
"""


class RunDirectory:
    """A directory of one cluster's data, deleted at the end; those of runs that were killed go at the next start."""

    def __init__(self) -> None:
        parent = build_directory() / "run"
        parent.mkdir(parents=True, exist_ok=True)
        with exclusive(build_directory() / "run.lock"):
            _sweep(parent)
            self.path = Path(tempfile.mkdtemp(prefix="cluster-", dir=parent))
            # Held as long as this process lives, so that no other run sweeps a folder in use.
            self._lock = (self.path / "in-use").open("w")
            fcntl.flock(self._lock, fcntl.LOCK_EX)

    def remove(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)
        self._lock.close()


def _sweep(parent: Path) -> None:
    for old in parent.glob("cluster-*"):
        try:
            with (old / "in-use").open("r+") as handle:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            continue
        except FileNotFoundError:
            pass
        shutil.rmtree(old, ignore_errors=True)


def new_id() -> str:
    """A random Kafka uuid: 16 bytes, URL-safe base64 without padding, no leading dash (a shell would mind it)."""
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()
        if not text.startswith("-"):
            return text


def write_properties(path: Path, properties: Mapping[str, str]) -> None:
    path.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))


def logging_options(jars: KafkaJars, directory: Path) -> list[str]:
    """JVM options that send all of Kafka's log lines to `directory`/server.log."""
    path = directory / "log.properties"
    path.write_text(LOG4J1 if jars.uses_log4j1 else LOG4J2)
    option = f"-Dlog4j.configuration=file:{path}" if jars.uses_log4j1 else f"-Dlog4j2.configurationFile={path}"
    return [f"-Dgrete.log={directory / 'server.log'}", option]


def format_storage(jars: KafkaJars, data: Path, cluster_id: str, node: int) -> None:
    """Format `data` for one node.

    Kafka's StorageTool runs once for a release; what it wrote differs between nodes only in the ids, so each further
    node gets a copy with its own: that spares a JVM start for each.
    """
    template = jars.directory / "formatted"
    if not template.exists():
        with exclusive(jars.directory / "format.lock"):
            if not template.exists():
                _run_storage_tool(jars, template)
    shutil.copytree(template, data)
    (data / "meta.properties").write_text(
        f"version=1\ncluster.id={cluster_id}\nnode.id={node}\ndirectory.id={new_id()}\n"
    )


def _run_storage_tool(jars: KafkaJars, template: Path) -> None:
    with tempfile.TemporaryDirectory(dir=jars.directory) as scratch:
        data, properties = Path(scratch) / "data", Path(scratch) / "node.properties"
        settings = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": "1@127.0.0.1:1",
            "listeners": "PLAINTEXT://127.0.0.1:2,CONTROLLER://127.0.0.1:1",
            "controller.listener.names": "CONTROLLER",
            "log.dirs": str(data),
        }
        write_properties(properties, settings)
        java = ["java", "-XX:TieredStopAtLevel=1", *logging_options(jars, Path(scratch)), "-cp", jars.classpath]
        command = [*java, "kafka.tools.StorageTool", "format", "-t", new_id(), "-c", str(properties)]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"kafka.tools.StorageTool format failed:\n{done.stdout}")
        # directory.id is new for each node; the rest of the directory (the bootstrap records) is the same for all.
        data.rename(template)
