"""A line for each job."""

import json
import logging
import re
import subprocess
import sys
from pathlib import Path

import pytest

from grete.instrumentation import Monitor
from grete.instrumentation.events import EVENTS
from grete.instrumentation.job_logger import JobLogger
from tests.unit.fake_jobs import FakeJob, some
from tests.unit.test_hook_runner import Recorder, Rig

PAGE = Path(__file__).parents[2] / "docs" / "listeners.md"


@pytest.fixture
def monitor() -> Monitor:
    monitor = Monitor()
    monitor.subscribe(JobLogger())
    return monitor


def run(monitor: Monitor, *jobs: FakeJob, fail: str = "") -> Rig:
    Recorder.calls, Recorder.fail = [], {fail}
    rig = Rig(Recorder, tick="1s", monitor=monitor)
    rig.run(*jobs)
    return rig


def texts(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage().rpartition(", in ")[0] for record in caplog.records]


def test_each_job_has_a_line_with_its_fields(monitor: Monitor, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    job = FakeJob(messages=some(), attempt=2)
    rig = run(monitor, job)
    name = rig.route.name
    assert texts(caplog) == [
        f"{name}: initialize of orders[3]",
        f"{name}: 2 records of orders[3], offsets 5..6, attempt 2",
    ]
    record = caplog.records[1]
    assert (record.name, record.levelno) == ("grete.jobs", logging.DEBUG)
    assert record.getMessage().endswith(" ms")
    fields = {key: value for key, value in vars(record).items() if key in EVENTS["job.finished"].fields}
    assert 0 <= fields.pop("time") < 60
    place = {"job": job.id, "handler": name, "topic": "orders", "partition": 3, "slot": 0, "group": "billing"}
    batch = {"attempt": 2, "records": 2, "first_offset": 5, "last_offset": 6, "error": None}
    assert fields == fields | place | batch
    assert "messages" not in vars(record), "a log that is kept would keep the batch's memory"
    assert record.__dict__["event"] == "job.finished"
    json.dumps(fields)


def test_what_failed_is_named_and_its_traceback_left_to_those_who_log_it(
    monitor: Monitor, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    rig = run(monitor, FakeJob(messages=some()))
    Recorder.fail = {"consume"}
    caplog.clear()
    with pytest.raises(RuntimeError):
        rig.run(FakeJob(messages=some()))
    (record,) = caplog.records
    assert record.getMessage().endswith(f" ms, {record.__dict__['error']}")
    assert record.__dict__["error"].startswith("RuntimeError: ")
    assert record.exc_info is None


def test_hooks_have_their_lines(monitor: Monitor, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    rig = run(monitor, FakeJob(messages=some()))
    caplog.clear()
    rig.run(FakeJob("tick"), FakeJob("eof"), FakeJob("revoked", lost=True))
    assert [record.__dict__["event"] for record in caplog.records] == [
        "consumer.tick",
        "consumer.eof",
        "consumer.revoked",
    ]
    assert texts(caplog)[-1] == f"{rig.route.name}: revoked of orders[3]"
    assert caplog.records[-1].__dict__["lost"] is True
    caplog.clear()
    rig.run(FakeJob(messages=some()), FakeJob("shutdown"))
    assert texts(caplog)[-1] == f"{rig.route.name}: shutdown of orders[3]"


def test_a_level_that_is_off_logs_nothing(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    monitor = Monitor()
    monitor.subscribe(JobLogger())
    run(monitor, FakeJob(messages=some()))
    assert caplog.records == []
    monitor.subscribe(JobLogger(logging.getLogger("mine"), level=logging.INFO))
    run(monitor, FakeJob(messages=some()), FakeJob("tick"))
    assert {record.name for record in caplog.records} == {"mine"}
    assert len(caplog.records) == 3


def test_it_logs_nothing_that_is_logged_without_it() -> None:
    monitor = Monitor()
    monitor.subscribe(JobLogger())
    heard = [name for name in monitor if monitor.event(name)]
    assert len(heard) == 6
    assert [name for name in heard if EVENTS[name].levels] == []


BEFORE = """
import grete
app = grete.App("shop", kafka={"bootstrap.servers": "127.0.0.1:1"})
"""

AFTER = """
lanes = [{"topic": "a", "lag": 20000}]
statistics = {"app": "shop", "node": None, "workers": 5, "busy": 0, "loop_jobs": 0, "lanes": lanes}
batch = {"records": 2, "first_offset": 5, "last_offset": 6, "attempt": 1, "messages": object()}
place = {"job": 1, "handler": "Orders.consume", "topic": "orders", "partition": 3, "slot": 0}
app.monitor.instrument("app.running", {"app": "shop", "node": None})
app.monitor.instrument("job.finished", {**place, **batch, "time": 1.5, "error": None})
app.monitor.instrument("statistics.emitted", {"statistics": statistics, "metrics": ()})
try:
    raise ValueError("no")
except ValueError as error:
    logging.getLogger("grete").exception("failed", extra={"event": "consumer.error", "error": error})
"""


def test_what_the_documentation_shows_can_be_run(tmp_path: Path) -> None:
    blocks = re.findall("```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(blocks) >= 5
    command = [sys.executable, "-c", "".join([BEFORE, *blocks, AFTER])]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "1 slow calls; behind: ['a']\n"
    lines = {line["event"]: line for line in map(json.loads, done.stderr.splitlines())}
    consumed, failed = lines["job.finished"], lines["consumer.error"]
    assert consumed["text"] == "Orders.consume: 2 records of orders[3], offsets 5..6, in 1500.0 ms"
    assert (consumed["level"], consumed["records"], consumed["topic"], consumed["error"]) == (
        "DEBUG",
        2,
        "orders",
        None,
    )
    assert "args" not in consumed
    assert failed["traceback"].endswith("ValueError: no")
    assert failed["error"] == "no"
