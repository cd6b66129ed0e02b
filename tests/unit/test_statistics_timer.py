"""Statistics for those who listen, and nothing for those who do not."""

import ast
import os
import selectors
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path

import pytest

import grete
from grete._processing.events.statistics_timer import StatisticsTimer
from grete.instrumentation import Event, Monitor
from tests.kafka import eventually
from tests.unit.test_emit import Everything, as_described
from tests.unit.test_stop import make

pytestmark = pytest.mark.usefixtures("empty_directory")

FIGURES = Path(__file__).parents[2] / "docs" / "statistics.md"


class Rig:
    """The timer with a clock that stands still."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, interval: float = 10.0) -> None:
        self.now = 100.0
        self.woken = self.made = 0
        self.monitor = Monitor()
        self.heard = list[Event]()
        monkeypatch.setattr("grete._processing.events.statistics_timer.monotonic", lambda: self.now)
        self.statistics = StatisticsTimer(self.monitor, interval, self.make, self.wake)
        self.statistics.start()

    def make(self) -> Mapping[str, object]:
        self.made += 1
        return {"statistics": {"made": self.made}}

    def wake(self) -> None:
        self.woken += 1

    def listen(self) -> None:
        self.monitor.subscribe("statistics.emitted", self.heard.append)

    def after(self, seconds: float) -> float | None:
        """What the thread does, so much later; then how long it waits."""
        self.now += seconds
        self.statistics.tick()
        return self.statistics.remaining()


def test_it_waits_for_nothing_without_listeners(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig(monkeypatch)
    assert [rig.after(seconds) for seconds in (0, 10, 1000)] == [None] * 3
    rig.listen()
    assert rig.woken == 1
    assert rig.after(0) == 10.0, "the first ones come an interval after a listener has"
    assert rig.after(4) == 6.0
    assert rig.made == 0
    assert rig.after(6) == 10.0
    assert [occurred["statistics"] for occurred in rig.heard] == [{"made": 1}]
    rig.monitor.unsubscribe("statistics.emitted", rig.heard.append)
    assert rig.woken == 2
    assert [rig.after(seconds) for seconds in (0, 10, 1000)] == [None] * 3
    rig.listen()
    assert rig.after(0) == 10.0, "not the one that was due long ago"
    assert rig.made == 1


def test_they_come_at_their_times_and_never_in_a_burst(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig(monkeypatch)
    rig.listen()
    assert rig.after(0) == 10.0
    assert rig.after(12) == 8.0, "late once, and not for ever"
    assert rig.after(8) == 10.0
    assert rig.after(35) == 10.0
    assert rig.after(0) == 10.0
    assert len(rig.heard) == 3


def test_the_last_ones_come_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig(monkeypatch)
    rig.statistics.emit_final()
    assert rig.made == 0
    rig.listen()
    rig.after(1)
    rig.statistics.emit_final()
    assert len(rig.heard) == 1
    rig.statistics.close()
    rig.monitor.subscribe("statistics.emitted", print)
    assert rig.woken == 1, "the run is over: there is no thread to wake"
    assert rig.after(1000) is None


def test_never_is_never(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig(monkeypatch, interval=make(statistics_interval="none").settings()["statistics_interval"])
    rig.listen()
    assert rig.after(1e9) is None
    rig.statistics.emit_final()
    assert rig.made == 0


def test_an_interval_that_is_none() -> None:
    assert make().settings()["statistics_interval"] == 10.0
    with pytest.raises(grete.ConfigError, match=r"statistics_interval \(from code\): it is at least 100ms, not '5ms'"):
        grete.App("one", statistics_interval="5ms")
    with pytest.raises(grete.ConfigError, match="statistics_interval"):
        grete.App("one", statistics_interval=-1)


@pytest.mark.own_process
@pytest.mark.parametrize("embedded", [True, False])
def test_listeners_added_during_the_run_are_called_and_removed_ones_are_not(embedded: bool) -> None:
    app, heard, by = make(statistics_interval="100ms", workers=3), list[Event](), set[str]()
    event = app.monitor.event("statistics.emitted")

    def listener(occurred: Event) -> None:
        heard.append(occurred)
        by.add(threading.current_thread().name)

    runs = threading.Event()
    app.monitor.subscribe("app.running", lambda _: runs.set())
    thread = threading.Thread(target=app.run, name="runs it")
    if embedded:
        app.start()
    else:
        thread.start()
    try:
        assert runs.wait(30)
        event.subscribe(listener)
        eventually(lambda: len(heard) > 2, 30.0, "each 100 ms")
        event.unsubscribe(listener)
        assert by == {"grete-app" if embedded else "runs it"}
        count = len(heard)
        event.subscribe(listener)
        eventually(lambda: len(heard) > count, 30.0, "emitted again")
        assert all(as_described(occurred) for occurred in heard)
        assert heard[-1]["statistics"] == app.statistics()
    finally:
        app.stop()
        if not embedded:
            thread.join()
    assert not embedded or "grete-app" not in {thread.name for thread in threading.enumerate()}


def test_the_last_ones_come_before_the_stop_is_over() -> None:
    app = make()
    heard = Everything(app.monitor)
    with app.running():
        pass
    (last,) = [occurred for occurred in heard if occurred.name == "statistics.emitted"]
    assert heard.names()[-2:] == ["statistics.emitted", "app.stopped"]
    assert last["statistics"]["counts"]["jobs"] == 0
    assert last["statistics"]["app"] == "stop"


def test_without_listeners_nothing_is_made_and_no_thread_wakes_up(monkeypatch: pytest.MonkeyPatch) -> None:
    limits: list[float | None] = []

    class Selector(selectors.EpollSelector):
        def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
            limits.append(timeout)
            return super().select(timeout)

    def made(*_: object) -> None:
        raise AssertionError("who wants them?")

    monkeypatch.setattr("grete._processing.main_loop.selectors.DefaultSelector", Selector)
    app = make(statistics_interval="100ms")
    for name in app.monitor:
        if name != "statistics.emitted":
            app.monitor.subscribe(name, lambda _: None)
    monkeypatch.setattr("grete._processing.engine.engine.Engine.statistics", made)
    app.start()
    eventually(lambda: limits, 30.0, "it waits")
    watching = list(limits)
    app.stop()
    assert watching == [None] * len(watching), "nothing but what happens wakes it"


def test_a_forked_child_neither_wakes_its_parent_nor_fails() -> None:
    app, heard = make(statistics_interval="100ms"), list[Event]()
    with app.running():
        child = os.fork()
        if child == 0:
            status = 1
            try:
                app.monitor.subscribe("statistics.emitted", heard.append)
                status = 0
            finally:
                os._exit(status)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert not app.monitor.event("statistics.emitted")
        app.monitor.subscribe("statistics.emitted", heard.append)
        eventually(lambda: heard, 30.0, "the parent's go on")


def test_who_watches_an_event_hears_of_each_change() -> None:
    event, changes = Monitor().event("app.running"), list[int]()
    event.watch(lambda: changes.append(len(event)))
    event.subscribe(print)
    event.subscribe(repr)
    assert not event.unsubscribe(str)
    event.unsubscribe(print)
    event.unsubscribe(repr)
    assert changes == [1, 2, 1, 0]
    event.watch(None)
    event.subscribe(print)
    assert len(changes) == 4


NODES = """
import os, signal
import grete
app = grete.App("shop", kafka={"bootstrap.servers": "127.0.0.1:1"}, statistics_interval="100ms")
@app.consumer("orders")
def orders(messages): pass
@app.monitor.subscribe("statistics.emitted")
def emitted(occurred):
    # The marker of a node: the one that sees both stops the swarm.
    node = occurred["statistics"]["node"]
    open(f"emitted-{node}", "w").close()
    if os.path.exists("emitted-0") and os.path.exists("emitted-1"):
        os.kill(os.getppid(), signal.SIGTERM)
@app.monitor.subscribe("swarm.stopped")
def stopped(occurred):
    open("stopped", "w").close()
"""


def test_each_node_of_a_swarm_emits_its_own(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(NODES)
    command = [sys.executable, "-m", "grete", "swarm", "shop", "--nodes", "2", "--control", "none"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    assert {path.name for path in tmp_path.iterdir()} >= {"emitted-0", "emitted-1", "stopped"}
    assert not (tmp_path / "emitted-None").exists()


def stub_fields(name: str) -> set[str]:
    """Fields of a TypedDict in the native module's stub; stubtest checks that the stub agrees with its module."""
    stub = Path(grete.__file__).with_name("_native.pyi")
    (found,) = [
        node for node in ast.parse(stub.read_text()).body if isinstance(node, ast.ClassDef) and node.name == name
    ]
    return {
        node.target.id for node in found.body if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
    }


def test_all_figures_are_documented() -> None:
    app = make()
    with app.running():
        statistics = app.statistics()
    assert set(statistics["counts"]) == stub_fields("_Counts")
    text = FIGURES.read_text()
    documented = {row.split("|")[1].strip().strip("`") for row in text.splitlines() if row.startswith("| `")}
    lanes = {f"lanes[].{name}" for name in stub_fields("_Lane")}
    counts = {f"counts.{name}" for name in statistics["counts"]}
    assert documented == (set(statistics) - {"lanes", "counts"}) | lanes | counts
