"""`grete run --reload`: the App stops cleanly and starts again when a Python file changes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Self

import pytest

from tests.integration.procfs import processes
from tests.integration.producers import producer
from tests.kafka import KafkaCluster, eventually
from tests.kafka.processes import end, spawn

pytestmark = pytest.mark.kafka

APP = """
import os
import grete

app = grete.App("{topic}", kafka={{"auto.commit.interval.ms": 3_600_000}})


@app.consumer("{topic}")
def handle(message: grete.Message) -> None:
    os.write(1, f"{word} {{message.value.decode()}}\\n".encode())


@app.on_shutdown
def stop() -> None:
    os.write(1, b"{word} has stopped\\n")
"""


class ReloadRun:
    """`grete run shop:app --reload` in a directory of its own."""

    def __init__(self, kafka: KafkaCluster, directory: Path, topic: str) -> None:
        self._kafka, self._directory, self._topic = kafka, directory, topic
        self._output = directory.parent / f"{directory.name}.out"
        self.write("first")

    def write(self, word: str) -> None:
        (self._directory / "shop.py").write_text(APP.format(topic=self._topic, word=word))

    def break_it(self) -> None:
        (self._directory / "shop.py").write_text("raise ValueError('not ready')\n")

    def produce(self, value: bytes) -> None:
        with producer(self._kafka.bootstrap_servers) as target:
            target.produce_sync(self._topic, value)

    @property
    def output(self) -> str:
        return self._output.read_text(errors="replace")

    def until(self, text: str) -> None:
        def found() -> bool:
            assert self.process.poll() is None, self.output
            return text in self.output

        eventually(found, 60, lambda: f"{text!r} in\n{self.output[-8000:]}")

    def __enter__(self) -> Self:
        command = [sys.executable, "-m", "grete", "run", "shop:app", "--reload", "--log-level", "info"]
        command += ["--kafka", "client.id=reloaded", "--bootstrap", self._kafka.bootstrap_servers]
        env = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
        with self._output.open("wb") as output:
            self.process = spawn(command, cwd=self._directory, env=env, stdout=output, stderr=subprocess.STDOUT)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        end(self.process)


def test_a_changed_file_starts_the_app_again_behind_its_offsets(
    kafka: KafkaCluster, tmp_path: Path, topic: str
) -> None:
    kafka.create_topic(topic, partitions=1)
    directory = tmp_path / "shop"
    directory.mkdir()
    with ReloadRun(kafka, directory, topic) as run:
        run.produce(b"one")
        run.until("first one")
        run.write("second")
        run.until("grete run: a file has changed; the App starts again")
        run.produce(b"two")
        run.until("second two")
        assert "first has stopped" in run.output, "a clean stop: what it did is committed"
        assert "second one" not in run.output
        assert [parent for parent, _ in processes().values()].count(run.process.pid) == 1

        run.break_it()
        run.until("grete run: the App has ended with status 1; it starts again when a file changes")
        run.write("third")
        run.produce(b"three")
        run.until("third three")
        run.process.terminate()
        assert run.process.wait(60) == 0
    assert "third has stopped" in run.output
    assert "third two" not in run.output
    assert "Traceback" not in run.output


def test_wrong_options_are_errors(tmp_path: Path) -> None:
    for words, text in (
        (("--watch", "."), "--watch is for --reload"),
        (("--reload", "--watch", "nowhere"), 'there is no directory "nowhere"'),
    ):
        done = subprocess.run(
            [sys.executable, "-m", "grete", "run", "shop:app", *words],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert (done.returncode, text in done.stderr) == (2, True), done.stderr


def test_without_watchfiles_the_package_is_named(tmp_path: Path) -> None:
    code = """
import sys
sys.modules["watchfiles"] = None
sys.argv = ["grete", "run", "shop:app", "--reload"]
import importlib.util
importlib.util.find_spec = lambda name: None
from grete.__main__ import main
main()
"""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.returncode, 'pip install "grete[dev]"' in done.stderr) == (1, True), done.stderr
