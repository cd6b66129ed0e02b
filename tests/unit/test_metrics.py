"""What an App measures, as text and as objects."""

import os
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

import grete
from grete import _native
from tests.kafka import eventually
from tests.unit.dispatcher_feed import DispatcherFeed
from tests.unit.test_stop import NOWHERE, make, threads

pytestmark = pytest.mark.usefixtures("empty_directory")

ROOT = Path(__file__).parents[2]


def scraped(text: str) -> dict[str, float]:
    """Each series as it is written, and its value."""
    found = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels = ",".join(f"{name}={value}" for name, value in sample.labels.items())
            found[f"{sample.name}{{{labels}}}"] = sample.value
    return found


def test_metrics_count_what_happens() -> None:
    feed = DispatcherFeed(handler_timeout=0.05)
    health = _native.Health(feed.dispatcher)
    feed.push([b"1", b"2", b"3"])
    families = scraped(health.metrics())
    lane = "{handler=Orders.consume,topic=orders,partition=0}"
    assert families[f"grete_lag_records{lane}"] == 3
    assert families[f"grete_queued_bytes{lane}"] > 0
    assert families["grete_lanes{state=ready}"] == 1
    assert families["grete_jobs_running{handler=Orders.consume}"] == 0
    assert families["grete_oldest_job_seconds{handler=Orders.consume}"] == 0.0
    job = feed.next()
    eventually(
        lambda: scraped(health.metrics())["grete_oldest_job_seconds{handler=Orders.consume}"] > 0.05, 30.0, "age"
    )
    families = scraped(health.metrics())
    assert families["grete_jobs_running{handler=Orders.consume}"] == 1
    assert families["grete_lanes{state=running}"] == 1
    feed.dispatcher.complete(job)
    families = scraped(health.metrics())
    assert families[f"grete_lag_records{lane}"] == 0
    assert families["grete_jobs_running{handler=Orders.consume}"] == 0


def test_process_metrics_are_exported() -> None:
    health = _native.Health(_native.Dispatcher())
    families = scraped(health.metrics())
    assert families[f"grete_info{{version={grete.__version__}}}"] == 1
    assert 0 < families["grete_process_cpu_seconds_total{}"] <= time.process_time()
    assert time.time() - 86400 < families["grete_process_start_time_seconds{}"] < time.time()
    assert (
        scraped(health.metrics())["grete_process_start_time_seconds{}"]
        == families["grete_process_start_time_seconds{}"]
    )
    page = os.sysconf("SC_PAGE_SIZE")
    assert families["grete_process_resident_memory_bytes{}"] % page == 0
    before = families["grete_process_open_fds{}"]
    reader, writer = os.pipe()
    assert scraped(health.metrics())["grete_process_open_fds{}"] == before + 2
    os.close(reader)
    os.close(writer)
    # No probe measures it here.
    assert "grete_gil_wait_seconds{}" not in families


def test_names_come_through_whole() -> None:
    name = 'say "a\\b"\n{x=1}, é'
    feed = DispatcherFeed(name=name)
    families = {name: samples for name, _, _, samples in _native.Health(feed.dispatcher).families()}
    assert [labels for labels, _ in families["grete_queued_bytes"]] == [
        {"handler": name, "topic": "orders", "partition": "0"}
    ]
    parsed = text_string_to_metric_families(_native.Health(feed.dispatcher).metrics())
    queued = next(family for family in parsed if family.name == "grete_queued_bytes")
    assert [sample.labels["handler"] for sample in queued.samples] == [name]


def test_text_and_objects_say_the_same() -> None:
    feed = DispatcherFeed()
    feed.push([b"1"])
    health = _native.Health(feed.dispatcher)
    families = {}
    for name, kind, sentence, samples in health.families():
        assert kind in ("counter", "gauge", "histogram")
        assert sentence.endswith(".")
        for labels, value in samples:
            written = ",".join(f"{label}={one}" for label, one in labels.items())
            if isinstance(value, tuple):
                buckets, total, count = value
                assert buckets[-1] == (float("inf"), count)
                families[f"{name}_sum{{{written}}}"] = total
                families[f"{name}_count{{{written}}}"] = count
            else:
                families[f"{name}{{{written}}}"] = value
    text = {series: value for series, value in scraped(health.metrics()).items() if "_bucket{" not in series}
    assert families.keys() == text.keys()
    moving = {"grete_process_cpu_seconds_total{}", "grete_process_resident_memory_bytes{}", "grete_lag_seconds"}
    same = {series for series in families if not any(series.startswith(one) for one in moving)}
    assert {series: families[series] for series in same} == {series: text[series] for series in same}


@pytest.mark.own_process
def test_a_running_app_exports_and_another_one_does_not() -> None:
    app = make(group="g", workers=3)
    with pytest.raises(grete.GreteError, match="does not run"):
        app.metrics()
    app.start()
    try:
        families = scraped(app.metrics())
        assert families["grete_workers{}"] == 3
        assert families["grete_group_ready{group=g}"] == 0
    finally:
        app.stop()
    with pytest.raises(grete.GreteError, match="does not run"):
        app.metrics()
    eventually(lambda: not threads(), 10.0, "no thread is left")


def test_a_forked_child_has_none() -> None:
    code = f"""
    import os, sys
    import grete
    from grete import _native

    health = _native.Health(_native.Dispatcher())
    app = grete.App("a", kafka={NOWHERE!r})
    app.consumer("orders")(lambda messages: None)
    app.start()
    if os.fork() == 0:
        for ask in (health.metrics, health.families, app.metrics):
            try:
                ask()
            except grete.GreteError as error:
                print(type(error).__name__, flush=True)
        os._exit(0)
    os.wait()
    app.stop()
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.split() == ["ForkedClientError", "ForkedClientError", "GreteError"]
