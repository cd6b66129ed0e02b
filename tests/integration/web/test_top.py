"""`grete top` beside brokers: in a pipe, on a terminal, and with an App that works."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import time
from pathlib import Path

import pytest

from grete._web import topics
from grete.client import Admin, Producer
from tests.integration.app_process import AppRun
from tests.integration.commands import GRETE, grete
from tests.integration.conftest import RECORDER
from tests.integration.web.test_web_reports import recorder
from tests.kafka import KafkaCluster, eventually, fill, new_cluster
from tests.kafka.processes import end, spawn
from tests.unit.web.simulated_reports import report

pytestmark = pytest.mark.kafka


@pytest.fixture
def settings(kafka: KafkaCluster) -> dict[str, str]:
    found = {"bootstrap.servers": kafka.bootstrap_servers}
    with Admin(found) as admin:
        topics.create_topics(admin, 1, 30.0)
    return found


def test_one_frame_shows_an_app_at_work(
    kafka: KafkaCluster, settings: dict[str, str], topic: str, group: str, tmp_path: Path
) -> None:
    kafka.create_topic(topic, partitions=2)
    fill(kafka.bootstrap_servers, topic, 100, partitions=2)
    with AppRun(RECORDER, tmp_path, recorder(kafka, topic, group)) as run:

        def lines() -> list[list[str]]:
            done = grete(kafka, "top", group, "--once")
            assert (done.status, done.err) == (0, "")
            assert "\x1b" not in done.out
            return [line.split() for line in done.out.splitlines()]

        run.until(
            lambda: [row for row in lines() if row[:2] == [group, f"{topic}[1]"] and row[-3:] == ["up", "to", "date"]],
            60.0,
            "the partition is up to date",
        )
        assert any(row[:1] == [group] and f":{run.pid}" in row[1] for row in lines())


def test_a_pipe_gets_frames_until_its_reader_has_gone(kafka: KafkaCluster, settings: dict[str, str]) -> None:
    with Producer(settings) as producer:
        producer.produce_sync(topics.REPORTS, report("top-pipe/host-1/7-a"), key=b"top-pipe")
    words = [GRETE, "top", "top-pipe", "--interval", "200ms", "--bootstrap", kafka.bootstrap_servers]
    process = spawn(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        assert process.stdout is not None
        frames = 0
        for line in process.stdout:
            assert b"\x1b" not in line
            frames += b"top-pipe host-1:7" in line
            if frames == 3:
                break
        process.stdout.close()
        assert process.wait(30) == 141  # as a process that SIGPIPE has ended
        assert process.stderr is not None
        with process.stderr:
            assert process.stderr.read() == b""
    finally:
        end(process)


def test_ctrl_c_ends_it_cleanly_and_gives_the_terminal_back(kafka: KafkaCluster, settings: dict[str, str]) -> None:
    with Producer(settings) as producer:
        producer.produce_sync(topics.REPORTS, report("top-tty/host-1/7-a"), key=b"top-tty")
    ours, theirs = pty.openpty()
    words = [GRETE, "top", "top-tty", "--interval", "200ms", "--bootstrap", kafka.bootstrap_servers]
    env = {**os.environ, "TERM": "xterm", "LINES": "40", "COLUMNS": "150"}
    process = spawn(words, stdin=theirs, stdout=theirs, stderr=theirs, env=env)
    os.close(theirs)
    shown = bytearray()

    def read() -> bytes:
        try:
            shown.extend(os.read(ours, 65536))
        except OSError:  # Linux says so when the other side is closed
            pass
        return bytes(shown)

    try:
        # Two frames, so that a report that comes later is shown without another start.
        eventually(lambda: b"top-tty host-1:7" in read(), 30.0, "the first frame")
        with Producer(settings) as producer:
            producer.produce_sync(topics.REPORTS, report("top-tty/host-2/8-b"), key=b"top-tty-2")
        eventually(lambda: b"top-tty host-2:8" in read(), 30.0, "the second process")
        process.send_signal(signal.SIGINT)
        deadline = time.monotonic() + 30
        while process.poll() is None and time.monotonic() < deadline:
            read()
        read()
        assert process.returncode == 0
        assert b"\x1b[?1049h" in shown
        assert b"\x1b[?1049l" in shown[shown.rindex(b"host-2:8") :], "the other screen is left"
        assert b"\x1b[?25h" in shown[shown.rindex(b"host-2:8") :], "the cursor is shown"
        assert b"Traceback" not in shown
    finally:
        end(process)
        os.close(ours)


def test_missing_topics_and_hostile_reports(kafka: KafkaCluster) -> None:
    with new_cluster() as own:
        done = grete(own, "top", "--once")
        assert done.status == 1
        assert "create it with grete web setup" in done.err
        settings = {"bootstrap.servers": own.bootstrap_servers}
        with Admin(settings) as admin:
            topics.create_topics(admin, 1, 30.0)
        assert "no process reports" in grete(own, "top", "--once").out
        with Producer(settings) as producer:
            for value in (b"", b"{}", b"[" * 5000, b'{"v": 1, "process": {"id": 5}}', os.urandom(200)):
                producer.produce_sync(topics.REPORTS, value, key=b"x")
        assert "no process reports" in grete(own, "top", "--once").out
