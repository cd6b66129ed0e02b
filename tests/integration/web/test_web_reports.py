"""Reports of real processes: what they say while they work, hang and hold the GIL, and after they have died."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest

from grete._web.topics import ERRORS, HISTORY, REPORTS
from grete.client import Admin, Producer
from tests.integration.app_process import AppRun
from tests.integration.conftest import RECORDER
from tests.integration.web.conftest import Web
from tests.kafka import KafkaCluster, eventually, fill

pytestmark = pytest.mark.kafka
REPORTING = {"GRETE_WEB_REPORTS": "500ms"}


def recorder(kafka: KafkaCluster, topic: str, group: str) -> dict[str, object]:
    return {
        "RECORDER_SERVERS": kafka.bootstrap_servers,
        "RECORDER_TOPIC": topic,
        "RECORDER_GROUP": group,
        **REPORTING,
    }


def process_of(web: Web, app: str) -> Any:
    for one in web.json("/processes")["apps"]:
        if one["app"] == app:
            return one["processes"][-1]
    return None


def test_a_process_is_shown_with_its_work_and_dead_after_its_death(
    kafka: KafkaCluster, web: Web, topic: str, group: str, tmp_path: Path
) -> None:
    kafka.create_topic(topic, partitions=3)
    fill(kafka.bootstrap_servers, topic, 300, partitions=3)
    with AppRun(RECORDER, tmp_path, recorder(kafka, topic, group)) as run:
        run.until(lambda: (process_of(web, group) or {}).get("lanes") == 3, 30.0, "the process reports its partitions")
        run.until(lambda: process_of(web, group)["lag"] == 0, 30.0, "the lag is zero")
        shown = process_of(web, group)
        assert (shown["state"], shown["pid"]) == ("running", run.pid)
        whole = web.json(f"/process?id={shown['id']}")
        assert whole["totals"]["records"] == 300
        assert [route["topics"] for route in whole["routes"]] == [[topic]]
        assert ["web_reports", "0.5s", "environment variable GRETE_WEB_REPORTS"] in whole["settings"]
        rows = web.json(f"/group?name={group}")["rows"]
        assert [(row["kind"], row["reason"], row["lag"]) for row in rows] == [("ok", "up to date", 0)] * 3
        run.stop(signal.SIGKILL)
        eventually(lambda: process_of(web, group)["state"] == "dead", 30.0, "it is dead")
    dead = web.json(f"/group?name={group}")["rows"]
    assert {row["kind"] for row in dead} == {"bad"}
    assert "has not reported for" in dead[0]["reason"]


def test_a_stopped_process_has_said_so(kafka: KafkaCluster, web: Web, topic: str, group: str, tmp_path: Path) -> None:
    kafka.create_topic(topic)
    with AppRun(RECORDER, tmp_path, recorder(kafka, topic, group)) as run:
        run.until(lambda: (process_of(web, group) or {}).get("state") == "running", 30.0, "it runs")
        assert run.stop() == 0
    eventually(lambda: process_of(web, group)["state"] == "stopped", 30.0, "its last report")
    assert process_of(web, group)["problems"] == []


def test_a_process_whose_gil_is_held_reports_all_the_same(
    kafka: KafkaCluster, web: Web, topic: str, group: str, tmp_path: Path
) -> None:
    kafka.create_topic(topic)
    fill(kafka.bootstrap_servers, topic, 10)
    environment = {
        "GRIPPING_SERVERS": kafka.bootstrap_servers,
        "GRIPPING_TOPIC": topic,
        "GRIPPING_GROUP": group,
        "GRIPPING_SECONDS": 12,
        **REPORTING,
    }
    with AppRun("tests.integration.apps.gil_holder:app", tmp_path, environment) as run:
        run.until(lambda: (process_of(web, group) or {}).get("gil_wait", 0) > 3000, 30.0, "the GIL is held")
        shown = process_of(web, group)
        assert shown["state"] == "running"
        assert any("the GIL has been held" in text for text in shown["problems"])
        (row,) = web.json(f"/group?name={group}")["rows"]
        assert "the GIL of its process has been held for" in row["reason"]
        run.until_event("lets go")
        run.until(lambda: not process_of(web, group)["problems"], 30.0, "it goes on")


APP = """
import os, time
import grete

app = grete.App(os.environ["APP_GROUP"], kafka={"bootstrap.servers": os.environ["APP_SERVERS"]}, stall_after="1s")

class CardError(Exception):
    pass

@app.consumer(os.environ["APP_TOPIC"], max_messages=1, retry=grete.Retry(attempts=None, backoff="30s", jitter=0.0))
def charge(message: grete.Message) -> None:
    if message.value == b"slow":
        sleep_for_long()
    if message.value == b"bad":
        raise CardError("card 7 was refused")

def sleep_for_long():
    time.sleep(60)
"""


def test_stacks_retries_and_errors_are_shown(
    kafka: KafkaCluster, web: Web, topic: str, group: str, tmp_path: Path
) -> None:
    kafka.create_topic(topic, partitions=2)
    with Producer(web.settings) as producer:
        producer.produce_sync(topic, b"slow", partition=0)
        producer.produce_sync(topic, b"bad", partition=1)
    (tmp_path / "cards.py").write_text(APP)
    environment = {"APP_SERVERS": kafka.bootstrap_servers, "APP_TOPIC": topic, "APP_GROUP": group, **REPORTING}
    environment["PYTHONPATH"] = str(tmp_path)
    with AppRun("cards:app", tmp_path, environment, ["--shutdown-timeout", "1s"]) as run:
        run.until(lambda: process_of(web, group), 30.0, "it reports")
        name = process_of(web, group)["id"]
        run.until(lambda: web.json(f"/process?id={name}")["stacks"], 30.0, "the stack of the slow handler")
        run.until(lambda: web.json(f"/process?id={name}")["retries"], 30.0, "the waiting retry")
        whole = web.json(f"/process?id={name}")
        assert "in sleep_for_long" in whole["stacks"][0]["stack"]
        assert f"on {topic}[0] offsets 0..0" in whole["stacks"][0]["text"]
        (waiting,) = whole["retries"]
        assert (waiting["partition"], waiting["attempt"]) == (1, 2)
        assert 0 < waiting["paused_for"] <= 30_000

        def mine() -> dict[str, Any]:
            return {one["event"]: one for one in web.json("/errors")["groups"] if one["app"] == group}

        run.until(lambda: {"consumer.error", "consumer.stalled"} <= set(mine()), 30.0, "both errors")
        error = web.json(f"/errors/{mine()['consumer.error']['id']}")
        assert error["group"]["class"] == "cards.CardError"
        assert "in charge" in error["traceback"]
        assert (error["group"]["topic"], error["group"]["partition"], error["group"]["offset"]) == (topic, 1, 0)
        assert web.browser.get(f"/topics/{topic}/1/0").status_code == 200, "the record that it leads to"
        assert "in sleep_for_long" in web.json(f"/errors/{mine()['consumer.stalled']['id']}")["traceback"]


def test_an_app_whose_topics_are_missing_goes_on_and_says_so(topic: str, group: str, tmp_path: Path) -> None:
    from tests.kafka import new_cluster

    with new_cluster() as own:
        with Admin({"bootstrap.servers": own.bootstrap_servers}) as admin:
            for name in (REPORTS, ERRORS, HISTORY):
                if name in admin.topics():
                    admin.delete_topic(name)
        own.create_topic(topic)
        fill(own.bootstrap_servers, topic, 10)
        with AppRun(RECORDER, tmp_path, recorder(own, topic, group)) as run:
            run.until(lambda: "[app.not_reported]" in run.output, 60.0, "the warning")
            assert "grete web setup" in run.output
            assert run.output.count("[app.not_reported]") == 1
            run.until(lambda: run.seen, 30.0, "the App works")
            assert run.stop() == 0


def test_history_and_processes_are_there_after_a_restart(
    kafka: KafkaCluster, topic: str, group: str, tmp_path: Path
) -> None:
    kafka.create_topic(topic)
    with AppRun(RECORDER, tmp_path, recorder(kafka, topic, group)) as run:
        for _ in range(2):
            web = Web(kafka.bootstrap_servers)
            try:
                run.until(lambda: (process_of(web, group) or {}).get("state") == "running", 30.0, "it is shown")  # noqa: B023
            finally:
                web.close()
        assert run.stop() == 0
