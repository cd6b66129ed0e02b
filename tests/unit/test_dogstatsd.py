"""Figures for an agent: real sockets, an agent made up here."""

import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

import grete
from grete.instrumentation import Monitor
from grete.instrumentation.dogstatsd import DogStatsD
from grete.instrumentation.dogstatsd.address import from_environment, parse
from grete.instrumentation.metrics import dotted, from_native
from tests.kafka import eventually
from tests.unit.fake_dogstatsd import Agent, Metric, agent
from tests.unit.test_stop import make

VARIABLES = (
    "DD_SERVICE",
    "DD_ENV",
    "DD_VERSION",
    "DD_ENTITY_ID",
    "DD_AGENT_HOST",
    "DD_DOGSTATSD_PORT",
    "DD_DOGSTATSD_URL",
)


@pytest.fixture(autouse=True)
def no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """None of this machine's."""
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def listening() -> Iterator[Agent]:
    with agent() as made:
        yield made


def heard(listener: DogStatsD, node: int | None = None) -> Monitor:
    """A monitor of an App that runs."""
    monitor = Monitor()
    monitor.subscribe(listener)
    monitor.instrument("app.running", {"app": "shop", "node": node, "topics": [], "groups": []})
    return monitor


def job(monitor: Monitor, time: float = 0.25, **fields: object) -> None:
    place = {"handler": "Orders.consume", "topic": "orders", "partition": 3, "slot": 0, "error": None}
    monitor.instrument("job.finished", place | fields | {"time": time})


def lag(records: float, **labels: str) -> Any:
    return "grete_lag_records", "gauge", "Lag.", [({"topic": "orders", "partition": "3"} | labels, records)]


def jobs(count: float, handler: str = "Orders.consume") -> Any:
    return "grete_jobs_total", "counter", "Jobs.", [({"handler": handler}, count)]


def emit(monitor: Monitor, *native: Any, node: int | None = None) -> None:
    statistics = {"app": "shop", "node": node}
    monitor.instrument("statistics.emitted", {"statistics": statistics, "metrics": from_native(native)})


@pytest.mark.parametrize(
    ("text", "path", "host", "port"),
    [
        ("localhost:9125", None, "localhost", 9125),
        ("agent", None, "agent", 8125),
        ("udp://10.0.0.1:8125", None, "10.0.0.1", 8125),
        ("udp://[::1]:8126", None, "::1", 8126),
        ("[::1]", None, "::1", 8125),
        ("unix:///var/run/datadog/dsd.socket", "/var/run/datadog/dsd.socket", "", 8125),
        ("unixgram:///dsd.socket", "/dsd.socket", "", 8125),
    ],
)
def test_an_agent_is_somewhere(text: str, path: str | None, host: str, port: int) -> None:
    found = parse(text)
    assert (found.path, found.host, found.port) == (path, host, port)
    assert parse(str(found)) == found
    assert found.max_datagram_bytes == (8192 if path else 1432)
    assert found.needs_lookup is (host in ("localhost", "agent"))


@pytest.mark.parametrize(
    "text",
    [
        "",
        ":8125",
        "http://localhost:8125",
        "localhost:many",
        "localhost:0",
        "localhost:99999",
        "unix://relative",
        "a/b",
    ],
)
def test_and_nowhere_else(text: str) -> None:
    with pytest.raises(grete.ConfigError, match='DogStatsD listens at "HOST:PORT" or "unix:///'):
        DogStatsD(text)


def test_streams_are_refused_with_what_would_do() -> None:
    with pytest.raises(grete.ConfigError, match=r"by datagrams: unixgram:///dsd\.socket"):
        DogStatsD("unixstream:///dsd.socket")


@pytest.mark.parametrize(
    ("environment", "found"),
    [
        ({}, "localhost:8125"),
        ({"DD_AGENT_HOST": "10.0.0.1"}, "10.0.0.1:8125"),
        ({"DD_AGENT_HOST": "fd00::1", "DD_DOGSTATSD_PORT": "9125"}, "[fd00::1]:9125"),
        ({"DD_DOGSTATSD_PORT": "9125"}, "localhost:9125"),
        ({"DD_AGENT_HOST": "a", "DD_DOGSTATSD_URL": "unix:///dsd.socket"}, "unix:///dsd.socket"),
    ],
)
def test_the_environment_names_the_agent(environment: Mapping[str, str], found: str) -> None:
    assert str(from_environment(environment)) == found


def test_what_makes_no_sense_is_refused() -> None:
    with pytest.raises(grete.ConfigError, match='times is "distribution"'):
        DogStatsD(times="timing")  # type: ignore[arg-type]
    with pytest.raises(grete.ConfigError, match=r"like \['team:shop'\]"):
        DogStatsD(tags="team:shop")


def test_times_of_jobs_share_datagrams(listening: Agent) -> None:
    listener = DogStatsD(listening.address, flush_interval=1000)
    monitor = heard(listener)
    for time in range(500):
        job(monitor, time / 1000)
    job(monitor, 2.5, error=ValueError("no"))
    job(monitor, 3.5, topic="clicks")
    assert listening.take() == []
    listener.flush()
    lines = listening.take()
    assert {(line.name, line.kind) for line in lines} == {("grete.handler.duration_seconds", "d")}
    good = {"handler": "Orders.consume", "topic": "orders", "result": "ok", "service": "shop"}
    assert [value for line in lines if line.tags == good for value in line.values] == [
        time / 1000 for time in range(500)
    ]
    others = [(line.values, line.tags) for line in lines if line.tags != good]
    assert others == [([2.5], good | {"result": "error"}), ([3.5], good | {"topic": "clicks"})]
    assert max(listening.sizes) <= 1432
    assert len(listening.sizes) < 5
    assert listener.statistics() == {"sent": len(listening.sizes), "bytes": sum(listening.sizes), "dropped": {}}
    listener.flush()
    assert listening.take() == []


def test_times_go_when_they_are_many_or_old(listening: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    monitor = heard(DogStatsD(listening.address, flush_interval=1000, times="histogram"))
    for _ in range(1000):
        job(monitor)
    lines = listening.take()
    assert sum(len(line.values) for line in lines) == 1000
    assert {line.kind for line in lines} == {"h"}
    now = 0.0
    monkeypatch.setattr("grete.instrumentation.dogstatsd.listener.monotonic", lambda: now)
    monitor = heard(DogStatsD(listening.address, flush_interval=2))
    job(monitor)
    now = 1.9
    job(monitor)
    assert listening.take() == []
    now = 2.0
    job(monitor)
    assert [line.values for line in listening.take()] == [[0.25] * 3]


def test_no_times_are_no_times(listening: Agent) -> None:
    listener = DogStatsD(listening.address, times=None)
    monitor = heard(listener)
    assert not monitor.event("job.finished"), "so that jobs cost nothing more"
    assert monitor.event("statistics.emitted")
    job(monitor)
    listener.close()
    assert listening.take() == []
    monitor.unsubscribe(listener)
    assert not monitor.event("statistics.emitted")


def test_figures_are_gauges_and_counts(listening: Agent) -> None:
    monitor = heard(DogStatsD(listening.address), node=2)
    histogram: Any = "grete_handler_duration_seconds", "histogram", "", [({}, (((0.1, 3), (1.0, 4)), 1.5, 5))]
    info: Any = "grete_info", "gauge", "", [({"version": "1"}, 1)]
    emit(monitor, info, lag(12), jobs(3), histogram, node=2)
    tags = {"service": "shop", "node": "2"}
    here = {"topic": "orders", "partition": "3"} | tags
    first = [
        Metric("grete.lag.records", [12], "g", here),
        Metric("grete.jobs", [3], "c", {"handler": "Orders.consume"} | tags),
    ]
    assert listening.take() == first, "counts from the beginning, which it has heard"
    emit(monitor, lag(float("nan")), jobs(3), node=2)
    assert listening.take() == []
    emit(monitor, lag(0.5, partition=""), jobs(10), node=2)
    names = [(line.name, line.values) for line in listening.take()]
    assert names == [("grete.lag.records", [0.5]), ("grete.jobs", [7])]
    emit(monitor, jobs(2), node=2)
    assert [line.values for line in listening.take()] == [[2]], "counted from 0 again"


def test_who_comes_late_counts_from_there(listening: Agent) -> None:
    monitor = Monitor()
    monitor.subscribe(DogStatsD(listening.address))
    emit(monitor, lag(1), jobs(1000))
    assert [line.name for line in listening.take()] == ["grete.lag.records"]
    emit(monitor, jobs(1001), ("grete_retries_total", "counter", "", [({}, 4)]))
    assert [(line.name, line.values) for line in listening.take()] == [("grete.jobs", [1]), ("grete.retries", [4])]


def test_a_second_run_counts_from_its_beginning(listening: Agent) -> None:
    def cpu(seconds: float) -> Any:
        return "grete_process_cpu_seconds_total", "counter", "", [({}, seconds)]

    monitor = heard(DogStatsD(listening.address))
    emit(monitor, cpu(1.5), jobs(5))
    assert [line.values for line in listening.take()] == [[1.5], [5]]
    monitor.instrument("app.running", {"app": "shop", "node": None, "topics": [], "groups": []})
    emit(monitor, cpu(2.5), jobs(6))
    assert [(line.name, line.values) for line in listening.take()] == [
        ("grete.process.cpu_seconds", [1]),
        ("grete.jobs", [6]),
    ]


def test_tags_are_at_every_figure(listening: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"DD_SERVICE": "book", "DD_ENV": "test", "DD_VERSION": "1.4", "DD_ENTITY_ID": "pod"}.items():
        monkeypatch.setenv(name, value)
    listener = DogStatsD(listening.address, tags=["team:a|b,c\n"], prefix="shop.")
    monitor = heard(listener)
    job(monitor, handler="Or|ders,#x\n")
    emit(monitor, lag(1))
    metrics = listening.take()
    assert [line.name for line in metrics] == ["shop.handler.duration_seconds", "shop.lag.records"]
    wanted = {"service": "book", "env": "test", "version": "1.4", "dd.internal.entity_id": "pod", "team": "a_b_c_"}
    for line in metrics:
        assert wanted.items() <= line.tags.items()
    assert metrics[0].tags["handler"] == "Or_ders__x_"
    monitor = heard(DogStatsD(listening.address, service="mine", env="", version="2"))
    emit(monitor, lag(1, topic="x" * 1000))
    (line,) = listening.take()
    assert (line.tags["service"], "env" in line.tags, line.tags["version"]) == ("mine", False, "2")
    assert len(line.tags["topic"]) == 200 - len("topic:")


def test_a_supervisor_counts_what_becomes_of_its_nodes(listening: Agent) -> None:
    monitor = Monitor()
    monitor.subscribe(DogStatsD(listening.address))
    monitor.instrument("swarm.starting", {"app": "shop", "nodes": 2})
    died = {"node": 1, "pid": 5, "status": -9, "signal": "SIGKILL", "reason": None}
    for fields in (died, died | {"reason": "memory"}, died | {"signal": None, "status": 3}):
        monitor.instrument("swarm.node.died", fields)
    for restarts in (0, 1):
        monitor.instrument("swarm.node.started", {"node": 1, "pid": 6, "restarts": restarts})
    metrics = listening.take()
    assert [line.tags.get("reason") for line in metrics] == ["SIGKILL", "memory", "status_3", None]
    assert [line.name for line in metrics] == ["grete.swarm.deaths"] * 3 + ["grete.swarm.restarts"]
    assert all(line.tags["node"] == "1" and line.tags["service"] == "shop" for line in metrics)
    monitor.instrument("swarm.stopped", {"status": 0})


def test_a_line_that_no_datagram_holds_is_dropped(listening: Agent) -> None:
    listener = DogStatsD(listening.address, tags=[f"{'x' * 190}{at}" for at in range(8)])
    monitor = heard(listener)
    job(monitor)
    emit(monitor, lag(1))
    assert listening.take() == []
    assert listener.statistics()["dropped"] == {"too_long": 2}


def test_an_agent_of_a_unix_socket_may_be_away_and_come_back(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "dsd.socket"
    listener = DogStatsD(f"unix://{path}")
    monitor = heard(listener)
    emit(monitor, lag(1))
    emit(monitor, lag(2))
    assert listener.statistics()["dropped"] == {"away": 2}
    (record,) = caplog.records
    assert (record.levelno, record.__dict__["event"]) == (logging.WARNING, "dogstatsd.dropped")
    assert f"the agent at unix://{path} does not accept all metrics" in record.getMessage()
    for value in (3, 4):
        with agent(path) as listening:
            emit(monitor, lag(value))
            assert [line.values for line in listening.take()] == [[value]], "another socket of the same name"
    with agent(path) as listening:
        listening.socket.close()
        emit(monitor, lag(5))
        assert listener.statistics()["dropped"] == {"away": 3}
    assert len(caplog.records) == 2, "once until it was well again"


def test_an_agent_that_reads_too_slowly_blocks_no_job(tmp_path: Path) -> None:
    with agent(tmp_path / "dsd.socket") as listening:
        listener = DogStatsD(listening.address)
        monitor = heard(listener)
        for _ in range(5_000):  # more datagrams than any queue has
            emit(monitor, lag(1))
        statistics: Any = listener.statistics()
        assert statistics["dropped"].keys() == {"full"}
        assert statistics["sent"] + statistics["dropped"]["full"] == 5_000
        assert len(listening.take()) == statistics["sent"]


def test_an_agent_at_a_port_without_a_listener_is_unreachable() -> None:
    with agent() as listening:
        address = listening.address
    listener = DogStatsD(address)
    monitor = heard(listener)
    for _ in range(10):
        emit(monitor, lag(1))
    dropped: Any = listener.statistics()["dropped"]
    assert dropped.keys() == {"away"}


def test_a_name_is_looked_up_when_the_run_begins_and_again_when_it_fails(
    listening: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    import socket

    known: dict[str, str] = {}
    looked_up = []

    def look_up(host: str, port: int, **_: object) -> Any:
        looked_up.append(threading.current_thread())
        if host not in known:
            raise socket.gaierror("who?")
        return real(known[host], port, type=socket.SOCK_DGRAM)

    real = socket.getaddrinfo
    monkeypatch.setattr("grete.instrumentation.dogstatsd.address.socket.getaddrinfo", look_up)
    listener = DogStatsD(f"agent.local:{listening.address.partition(':')[2]}", flush_interval=0)
    assert looked_up == [], "not where it is declared"
    monitor = heard(listener)
    job(monitor)
    assert len(looked_up) == 1
    assert listener.statistics()["dropped"] == {"name": 1}
    known["agent.local"] = "127.0.0.1"
    thread = threading.Thread(target=job, args=(monitor,))
    thread.start()
    thread.join()
    assert thread not in looked_up, "a handler does not wait for a resolver"
    emit(monitor, lag(1))
    job(monitor)
    assert [line.name for line in listening.take()] == ["grete.lag.records", "grete.handler.duration_seconds"]


def test_a_forked_child_sends_its_own(listening: Agent) -> None:
    listener = DogStatsD(listening.address, flush_interval=1000)
    monitor = heard(listener)
    emit(monitor, jobs(3))
    job(monitor, 0.1)
    assert [line.values for line in listening.take()] == [[3]]
    # As if another thread held the locks: no thread would ever release the child's.
    with listener._lock, listener._sender._lock:
        child = os.fork()
        if child == 0:
            status = 1
            try:
                monitor.instrument("app.running", {"app": "shop", "node": 1, "topics": [], "groups": []})
                job(monitor, 0.2)
                emit(monitor, jobs(1), node=1)
                monitor.instrument("app.stopped")
                status = 0
            finally:
                os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    times, count = listening.take()
    assert (times.values, times.tags["node"]) == ([0.2], "1"), "and not what waits in the parent"
    assert (count.values, count.tags["node"]) == ([1], "1")
    listener.flush()
    assert [line.values for line in listening.take()] == [[0.1]]


def test_what_waits_is_sent_at_the_end(listening: Agent) -> None:
    listener = DogStatsD(listening.address, flush_interval=1000)
    monitor = heard(listener)
    job(monitor)
    monitor.instrument("app.stopped")
    assert len(listening.take()) == 1
    job(monitor)
    listener.close()
    assert len(listening.take()) == 1, "a listener may be closed more than once, and goes on"


def test_handlers_in_many_threads_lose_nothing(listening: Agent) -> None:
    listener = DogStatsD(listening.address, flush_interval=0.001)
    monitor = heard(listener)
    metrics: list[Metric] = []

    def work() -> None:
        for _ in range(500):
            job(monitor)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        metrics += listening.take()
    listener.flush()
    metrics += listening.take()
    assert sum(len(line.values) for line in metrics) == 2000


def test_an_app_sends_what_it_measures(listening: Agent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    app = make(statistics_interval="100ms", workers=3)
    app.monitor.subscribe(DogStatsD(listening.address))
    with app.running():
        metrics = {line.name: line for line in listening.wait()}
        names = {family.name for family in app.families() if family.kind != "histogram"}
    assert (metrics["grete.workers"].values, metrics["grete.workers"].tags) == ([3], {"service": "stop"})
    assert metrics["grete.process.resident_memory_bytes"].values[0] > 1 << 20
    assert metrics["grete.process.cpu_seconds"].kind == "c"
    known = {f"grete.{dotted(name)}" for name in names}
    assert metrics.keys() <= known


SHOP = """
import grete
from grete.instrumentation.dogstatsd import DogStatsD
app = grete.App("shop", kafka={"bootstrap.servers": "127.0.0.1:1"}, statistics_interval="100ms")
@app.consumer("orders")
def orders(messages): pass
app.monitor.subscribe(DogStatsD())
"""


def test_nodes_and_their_supervisor_send_each_its_own(listening: Agent, tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(SHOP)
    command = [sys.executable, "-m", "grete", "swarm", "shop", "--nodes", "2", "--control", "none"]
    environment = os.environ | {"DD_DOGSTATSD_URL": f"udp://{listening.address}"}
    seen: dict[str, list[Metric]] = {}

    def has(name: str, nodes: set[str]) -> bool:
        for line in listening.take():
            seen.setdefault(line.name, []).append(line)
        return {line.tags.get("node") for line in seen.get(name, [])} >= nodes

    with subprocess.Popen(
        command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as swarm:
        try:
            eventually(lambda: has("grete.workers", {"0", "1"}), 60.0, "both nodes send")
            children = Path(f"/proc/{swarm.pid}/task/{swarm.pid}/children").read_text().split()
            os.kill(int(children[0]), signal.SIGKILL)
            eventually(
                lambda: has("grete.swarm.restarts", set()) and "grete.swarm.restarts" in seen, 60.0, "it is counted"
            )
        finally:
            swarm.send_signal(signal.SIGTERM)
            output, _ = swarm.communicate(timeout=60)
    assert swarm.returncode == 0, output
    (died, *_) = seen["grete.swarm.deaths"]
    assert died.tags == {"reason": "SIGKILL", "service": "shop", "node": seen["grete.swarm.restarts"][0].tags["node"]}
    assert {line.tags["service"] for lines in seen.values() for line in lines} == {"shop"}
    assert all("node" in line.tags for lines in seen.values() for line in lines)
