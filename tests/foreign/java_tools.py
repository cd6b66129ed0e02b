"""Kafka's command line tools in one JVM."""

from __future__ import annotations

import base64
import subprocess
from dataclasses import dataclass
from typing import Self

from tests.kafka import KafkaJars
from tests.kafka.java import tools
from tests.kafka.processes import end, spawn


@dataclass(frozen=True)
class Run:
    """A run's exit status and output."""

    status: int
    output: str
    errors: str

    @property
    def lines(self) -> list[list[str]]:
        """The words of each line."""
        return [line.split() for line in self.output.splitlines() if line.strip()]


class JavaTools:
    """The JVM, to be entered by `with`. A test's timeout ends a tool that hangs."""

    def __init__(self, bootstrap_servers: str) -> None:
        self._servers = bootstrap_servers
        jars = KafkaJars().ensure()
        line = ["java", "-Xmx256m", "-XX:TieredStopAtLevel=1", "-Xshare:auto"]
        self._line = [*line, "-cp", f"{jars.classpath}:{tools(jars)}", "KafkaTools"]
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self._process = spawn(self._line, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            end(self._process)
            for stream in (self._process.stdin, self._process.stdout):
                if stream is not None:
                    stream.close()

    def __call__(self, tool: str, *arguments: str, text: str = "", servers: bool = True, status: int = 0) -> Run:
        """Run a class, by default of org.apache.kafka.tools, with `text` as its standard input."""
        assert self._process is not None
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        name = tool if tool.startswith("kafka.") else f"org.apache.kafka.tools.{tool}"
        address = ["--bootstrap-server", self._servers] if servers else []
        fields = [name, text, *address, *arguments]
        self._process.stdin.write(b" ".join(b"-" + base64.b64encode(field.encode()) for field in fields) + b"\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline().split()
        output, errors = (base64.b64decode(field[1:]).decode() for field in answer[1:])
        run = Run(int(answer[0]), output, errors)
        assert run.status == status, f"{tool} {' '.join(arguments)}: {run}"
        return run
