"""What the process is called."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import setproctitle

import grete
from grete.instrumentation import Monitor
from grete.instrumentation.metrics import from_native
from grete.instrumentation.process_title import ProcessTitle


class Titled:
    """A monitor, and what its listener calls the process."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.title = "pytest"
        self.now = 100.0
        monkeypatch.setattr(setproctitle, "setproctitle", self.set)
        monkeypatch.setattr(setproctitle, "getproctitle", lambda: self.title)
        monkeypatch.setattr(setproctitle, "setthreadtitle", lambda _: None)
        monkeypatch.setattr("grete.instrumentation.process_title.monotonic", lambda: self.now)
        self.monitor = Monitor()
        self.monitor.subscribe(ProcessTitle())

    def set(self, title: str) -> None:
        self.title = title

    def after(self, name: str, **fields: object) -> str:
        self.monitor.instrument(name, fields)
        return self.title

    def running(self, node: int | None = None) -> str:
        return self.after("app.running", app="orders", node=node, topics=[], groups=[])

    def figures(self, busy: int, lags: list[float], loop_jobs: int = 0, later: float = 10.0) -> str:
        self.now += later
        native: Any = ("grete_lag_records", "gauge", "", [({"partition": str(at)}, lag) for at, lag in enumerate(lags)])
        statistics = {"app": "orders", "node": None, "workers": 5, "busy": busy, "loop_jobs": loop_jobs}
        return self.after("statistics.emitted", statistics=statistics, metrics=from_native([native]))


@pytest.fixture
def titled(monkeypatch: pytest.MonkeyPatch) -> Titled:
    return Titled(monkeypatch)


def test_a_process_is_called_what_it_does(titled: Titled) -> None:
    assert titled.title == "pytest", "nothing runs yet"
    assert titled.running() == "grete: orders [running]"
    assert titled.figures(3, []) == "grete: orders [3 of 5 busy]"
    assert titled.figures(3, [7, 5]) == "grete: orders [3 of 5 busy, lag 12]"
    assert titled.figures(0, [0], loop_jobs=2) == "grete: orders [0 of 5 busy, 2 on the loop, lag 0]"
    assert titled.after("app.quiet") == "grete: orders [quiet, 0 of 5 busy, 2 on the loop, lag 0]"
    assert titled.figures(1, [1]) == "grete: orders [quiet, 1 of 5 busy, lag 1]"
    assert titled.after("app.stopping") == "grete: orders [stopping, 1 of 5 busy, lag 1]"
    assert titled.after("app.stopped") == "pytest"
    assert titled.running() == "grete: orders [running]"


def test_figures_change_it_once_a_second_and_states_at_once(titled: Titled) -> None:
    titled.running()
    titled.figures(1, [1])
    assert titled.figures(2, [2], later=0.9) == "grete: orders [1 of 5 busy, lag 1]"
    assert titled.after("app.quiet") == "grete: orders [quiet, 1 of 5 busy, lag 1]"
    assert titled.figures(3, [3], later=0.2) == "grete: orders [quiet, 3 of 5 busy, lag 3]"


def test_a_supervisor_shows_its_nodes_and_a_node_its_number(titled: Titled) -> None:
    assert titled.after("swarm.starting", app="orders", nodes=2) == "grete: orders supervisor [0 of 2 nodes ready]"
    for node in (0, 1, 1):
        titled.after("swarm.node.ready", node=node, pid=5, seconds=0.1)
    assert titled.title == "grete: orders supervisor [2 of 2 nodes ready]"
    titled.after("swarm.node.not_ready", node=0, pid=5)
    died = {"node": 0, "pid": 5, "status": 0, "signal": None, "uptime": 1.0, "reason": None, "rss": 1}
    assert titled.after("swarm.node.died", **died) == "grete: orders supervisor [1 of 2 nodes ready]"
    assert titled.after("swarm.quiet", nodes=2) == "grete: orders supervisor [quiet, 1 of 2 nodes ready]"
    assert titled.after("swarm.stopping", nodes=2) == "grete: orders supervisor [stopping, 1 of 2 nodes ready]"
    # In the process that was forked.
    assert titled.running(node=1) == "grete: orders node 1 [running]"
    assert titled.figures(1, [1]) == "grete: orders node 1 [1 of 5 busy, lag 1]"
    assert titled.after("app.stopped") == "grete: orders node 1 [1 of 5 busy, lag 1]", "its process ends"


def test_what_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "setproctitle", None)
    with pytest.raises(grete.ConfigError, match=r'pip install "grete\[process-title\]"'):
        ProcessTitle()


REAL = """
import threading
from pathlib import Path
import grete
from grete.instrumentation.process_title import ProcessTitle
app = grete.App("shop", kafka={"bootstrap.servers": "127.0.0.1:1"}, statistics_interval="100ms", workers=2)
app.consumer("orders")(lambda messages: None)
app.monitor.subscribe(ProcessTitle())
emitted = threading.Event()
app.monitor.subscribe("statistics.emitted", lambda _: emitted.set())
def title():
    return Path("/proc/self/cmdline").read_text().strip("\\0 ")
before = title()
with app.running():
    assert emitted.wait(30)
    print(title())
    names = {path.read_text().strip() for path in Path("/proc/self/task").glob("*/comm")}
    assert "python" in names and not any(name.startswith("grete: ") for name in names), names
assert title() == before.replace("\\0", " "), (title(), before)
"""


def test_the_kernel_gets_the_title(tmp_path: Path) -> None:
    command = [sys.executable, "-c", REAL]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "grete: shop [0 of 2 busy]\n"
