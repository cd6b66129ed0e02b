"""`grete demo`: to its end, on a terminal, ended by a signal, and with claims that do not come true."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
import threading
from pathlib import Path
from typing import Self

import pytest

from tests.integration.procfs import environment, processes
from tests.kafka.jars import ROOT
from tests.kafka.processes import end, kill_group, spawn
from tests.kafka.waiting import eventually

CLAIMS = [
    "Two nodes share the orders",
    "A poison order is retried",
    "It becomes a dead letter",
    "A killed node comes back",
    "The dead letter is replayed",
    "No order is lost",
    "The swarm stops cleanly",
]
DEMO = ["-m", "grete", "demo"]
# The repair before the replay does nothing, so the handler never succeeds.
NEVER_REPAIRED = """
import sys
from grete._demo import command, story
story._RATE_OF_POISON = {}
sys.exit(command.main(["--plain"]))
"""
ROWS, COLUMNS = 24, 80


class DemoRun:
    """`grete demo` as a process of its own; killed at the end of the `with` unless it has ended.

    `terminal`: its output goes to a terminal of 80 columns and 24 lines. Temporary files are made in `directory`.
    """

    def __init__(self, directory: Path, *words: str, terminal: bool = False) -> None:
        self.directory = directory
        self._mark = f"DEMO_TEST={directory}"
        python_path = os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH"), str(ROOT)]))
        # A setting of the user's that would break the App if the demo used it.
        own = {"DEMO_TEST": str(directory), "TMPDIR": str(directory), "GRETE_WORKERS": "none", "TERM": "xterm-256color"}
        self._master, output = pty.openpty() if terminal else os.pipe()
        if terminal:
            fcntl.ioctl(output, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        self.process = spawn(
            [sys.executable, *words],
            cwd=directory,
            env={**os.environ, "PYTHONPATH": python_path, **own},
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        os.close(output)
        self._received = b""
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        while True:
            try:
                data = os.read(self._master, 1 << 16)
            except OSError:
                return  # the last descriptor of the terminal is closed
            if not data:
                return
            self._received += data

    @property
    def output(self) -> str:
        """What it wrote to stdout and stderr."""
        return self._received.decode(errors="replace")

    def until(self, text: str, seconds: float = 60.0) -> None:
        eventually(lambda: text in self.output, seconds, lambda: f"{text!r} in\n{self.output[-8000:]}")

    def wait(self, seconds: float = 70.0) -> int:
        """Waits for the end, and for all output; returns the exit status."""
        try:
            status = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"did not end within {seconds:g} s\n{self.output[-8000:]}") from None
        self._reader.join(10)
        return status

    def descendants(self) -> list[int]:
        """Processes that run with the environment of the demo, without itself."""
        mark = self._mark.encode()
        running = [pid for pid, (_, state) in processes().items() if state != "Z"]
        return [pid for pid in running if pid != self.process.pid and mark in environment(pid).split(b"\0")]

    def left(self) -> list[Path]:
        """Files that it has left."""
        return list(self.directory.iterdir())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        end(self.process)
        self._reader.join(10)
        os.close(self._master)
        if kind is not None:
            print(f"--- output of the demo\n{self.output[-8000:]}", file=sys.stderr)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Working directory and directory of temporary files, empty."""
    made = tmp_path / "d"
    made.mkdir()
    return made


def test_all_claims_come_true_without_a_terminal(directory: Path) -> None:
    with DemoRun(directory, *DEMO) as demo:
        assert demo.wait() == 0
        assert re.findall(r"ok: ([^:]+):", demo.output) == CLAIMS
        story = [
            "attempt 1 of 3 fails: UnknownCurrencyError",
            "attempt 3 of 3 fails: UnknownCurrencyError",
            "orders.dlq[0]:0, UnknownCurrencyError",
            "SIGKILL to node 1",
            "1 replayed: 1 to orders",
            "All 7 claims came true",
            "What to type next",
        ]
        places = [demo.output.find(line) for line in story]
        assert -1 not in places, demo.output
        assert places == sorted(places)
        assert "\x1b" not in demo.output
        assert (demo.descendants(), demo.left()) == ([], [])


def test_all_claims_come_true_on_a_terminal(directory: Path) -> None:
    with DemoRun(directory, *DEMO, terminal=True) as demo:
        demo.until("starting a broker")
        demo.until("backoff")  # the killed node
        assert demo.wait() == 0
        last = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", demo.output[demo.output.rindex("starting a broker") :])
        assert [title for title in CLAIMS if f"✓  {title}" not in last] == []
        lines = last[last.rindex("grete demo   a broker on") :].splitlines()
        assert len(lines) < ROWS, "the picture and the summary fit the terminal"
        assert max(map(len, lines)) <= COLUMNS
        assert "All 7 claims came true" in "\n".join(lines)
        assert demo.output.rindex("\x1b[?25h") > demo.output.rindex("\x1b[?25l"), "the cursor is shown again"
        assert (demo.descendants(), demo.left()) == ([], [])


@pytest.mark.parametrize(("sig", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_in_the_middle_leaves_nothing(directory: Path, sig: signal.Signals, status: int) -> None:
    with DemoRun(directory, *DEMO, terminal=True) as demo:
        demo.until("attempt 1 of 3 fails")
        assert len(demo.descendants()) >= 3  # the supervisor and its nodes
        kill_group(demo.process, sig)  # as a terminal does
        assert demo.wait(20) == status
        assert "interrupted; nothing is left" in demo.output
        assert "Traceback" not in demo.output
        assert demo.output.rindex("\x1b[?25h") > demo.output.rindex("\x1b[?25l"), "the cursor is shown again"
        assert (demo.descendants(), demo.left()) == ([], [])


def test_a_killed_demo_takes_its_processes_along(directory: Path) -> None:
    with DemoRun(directory, *DEMO, "--plain") as demo:
        demo.until("ok: Two nodes share the orders")
        os.kill(demo.process.pid, signal.SIGKILL)
        assert demo.wait() == -signal.SIGKILL
        eventually(lambda: demo.descendants() == [], 20, "the end of the swarm")


def test_a_handler_that_never_succeeds_fails_its_claims(directory: Path) -> None:
    with DemoRun(directory, "-c", NEVER_REPAIRED) as demo:
        assert demo.wait() == 1
        failed = re.findall(r"FAILED: ([^:]+):", demo.output)
        assert failed == ["The dead letter is replayed", "No order is lost"]
        summary = demo.output[demo.output.index("2 of 7 claims did not come true") :]
        assert re.search(r'"The dead letter is replayed": waited \d+ s for the invoice of order', summary)
        assert "read docs/dead-letters.md#replay" in summary
        (log,) = re.findall(r"The log of the App is (\S+)", summary)
        assert "there is no exchange rate for CHF" in Path(log).read_text()
        assert demo.descendants() == []


def test_a_supervisor_that_dies_fails_its_claims(directory: Path) -> None:
    with DemoRun(directory, *DEMO, "--plain") as demo:
        demo.until("ok: Two nodes share the orders")
        parents = processes()
        (supervisor,) = [pid for pid in demo.descendants() if parents[pid][0] == demo.process.pid]
        os.kill(supervisor, signal.SIGKILL)
        assert demo.wait() == 1
        assert re.findall(r"ok: ([^:]+):", demo.output) == CLAIMS[:1]
        assert "FAILED: A poison order is retried: the swarm has ended with status -9" in demo.output
        assert "6 of 7 claims did not come true" in demo.output
        assert demo.descendants() == []


def test_output_that_nobody_reads_ends_the_demo(directory: Path) -> None:
    script = f"{sys.executable} -m grete demo | head -n 1; echo ${{PIPESTATUS[0]}}"
    with DemoRun(directory, "-c", f"import os; os.execvp('bash', ['bash', '-c', {script!r}])") as demo:
        assert demo.wait() == 0
        assert demo.output.splitlines()[-1] == "141"
        assert "Traceback" not in demo.output
        assert (demo.descendants(), demo.left()) == ([], [])


@pytest.mark.parametrize("words", [(), ("--app",), ("--help",)], ids=" ".join)
def test_a_full_disk_is_one_line(directory: Path, words: tuple[str, ...]) -> None:
    command = [sys.executable, *DEMO, *words]
    with Path("/dev/full").open("wb") as full:
        environment = {**os.environ, "TMPDIR": str(directory)}
        done = subprocess.run(
            command, stdout=full, stderr=subprocess.PIPE, text=True, env=environment, check=False, timeout=60
        )
    assert (done.returncode, done.stderr) == (1, "Error: standard output cannot be written: No space left on device\n")
    assert list(directory.iterdir()) == []


def test_a_closed_standard_output_is_an_error() -> None:
    script = f"{sys.executable} -m grete demo >&-"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (
        1,
        "Error: standard output is closed: send it to a file or a command, or to /dev/null\n",
    )


def test_the_app_is_printed_and_declares_what_the_demo_runs() -> None:
    done = subprocess.run([sys.executable, *DEMO, "--app"], capture_output=True, text=True, check=True, timeout=60)
    declared: dict[str, object] = {"__name__": "shop"}
    exec(compile(done.stdout, "shop.py", "exec"), declared)
    assert {"app", "Invoices"} <= declared.keys()
