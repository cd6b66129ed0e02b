"""Commands from the pages to Apps: what the buttons say happens, once, and forged ones do nothing."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from grete._processing.commands.verification import SIGNATURE, Command, sign
from grete._web.security.access import Access, hash_password
from grete._web.topics import COMMANDS
from grete.client import Producer
from tests.integration.app_process import AppRun
from tests.integration.conftest import RECORDER
from tests.integration.swarm_process import SwarmRun
from tests.integration.web.conftest import Web
from tests.integration.web.test_web_reports import process_of, recorder
from tests.kafka import KafkaCluster, eventually, fill
from tests.unit.web.test_guard import basic

pytestmark = pytest.mark.kafka
SECRET = os.urandom(16).hex()
# A page that has a form in any case.
FORM = f"/topics/{COMMANDS}/records"


@pytest.fixture
def signing(kafka: KafkaCluster) -> Iterator[Web]:
    found = Web(kafka.bootstrap_servers, secret=SECRET)
    yield found
    found.close()


def started(web: Web, run: AppRun, group: str, lanes: int) -> str:
    run.until(lambda: (process_of(web, group) or {}).get("lanes") == lanes, 30.0, "it has its partitions")
    name: str = process_of(web, group)["id"]
    run.until(lambda: web.json(f"/process?id={name}")["settings"], 30.0, "its settings")
    return name


def command(web: Web, name: str, action: str, **fields: object) -> dict[str, Any]:
    """Goes the way of a person: the form, the page that asks again, the answer."""
    page = f"/process?id={name}"
    before = len(web.json("/audit")["entries"])
    plan = web.post(page, "/process/plan", id=name, action=action, **fields)
    assert plan.status_code == 200, plan.text
    assert "nothing is sent yet" in plan.text
    assert len(web.json("/audit")["entries"]) == before, "a plan sends nothing"
    sent = web.post(page, "/process/send", id=name, action=action, **fields)
    assert sent.status_code == 303, sent.text
    answered = ("done", "failed", "refused")

    def answers() -> list[dict[str, Any]]:
        found = web.json("/audit")["entries"]
        return [one for one in found[: len(found) - before] if one["result"] in answered]

    eventually(answers, 30.0, "the answer")
    (answer,) = answers()
    assert (answer["action"], answer["by"], answer["process"]) == (action, "local", name)
    return answer


def test_a_paused_partition_stops_and_a_moved_offset_is_processed_from_there(
    kafka: KafkaCluster, signing: Web, topic: str, group: str, tmp_path: Path
) -> None:
    kafka.create_topic(topic, partitions=2)
    environment = recorder(kafka, topic, group) | {"GRETE_WEB_COMMANDS_SECRET": SECRET}
    with AppRun(RECORDER, tmp_path, environment) as run:
        name = started(signing, run, group, 2)

        def records(partition: int) -> list[int]:
            batches = [row["runs"] for row in run.seen if row.get("partition") == partition and row["event"] == "batch"]
            return [offset for runs in batches for first, last in runs for offset in range(first, last + 1)]

        def write(text: bytes) -> None:
            with Producer(signing.settings) as producer:
                for partition in (0, 1):
                    producer.produce_sync(topic, text, partition=partition)

        answer = command(signing, name, "pause", place=f"{group} {topic} 0")
        assert (answer["result"], answer["text"]) == ("done", f"paused: {topic}[0]")
        write(b"one")
        run.until(lambda: records(1) == [0], 30.0, "the other partition goes on")
        run.until(
            lambda: (
                [lane["state"] for lane in signing.json(f"/process?id={name}")["lanes"] if lane["partition"] == 0]
                == ["paused"]
            ),
            30.0,
            "the page says so",
        )
        assert records(0) == []
        assert command(signing, name, "resume", place=f"{group} {topic} *")["result"] == "done"
        run.until(lambda: records(0) == [0], 30.0, "it goes on")
        moved = command(signing, name, "seek", place=f"{group} {topic} 1", offset=0)
        assert (moved["result"], moved["text"]) == ("done", f"{topic}[1] goes on from 0")
        run.until(lambda: records(1) == [0, 0], 30.0, "it is processed again")
        scaled = command(signing, name, "scale", workers=7)
        assert (scaled["result"], scaled["text"]) == ("done", "7 workers from now on; surplus ones end after their job")
        run.until(lambda: process_of(signing, group)["workers"] == 7, 30.0, "its report has the workers")
        for refused in ("0", "10001", "-1", "many", ""):
            answer = signing.post(f"/process?id={name}", "/process/plan", id=name, action="scale", workers=refused)
            assert answer.status_code == 400, refused
        stacks = command(signing, name, "dump_stacks")
        assert "grete-commands" not in stacks["detail"]
        assert "MainThread" in stacks["detail"]
        assert command(signing, name, "quiet")["result"] == "done"
        run.until(lambda: process_of(signing, group)["state"] == "quiet", 30.0, "it is quiet")
        write(b"two")
        assert command(signing, name, "stop")["result"] == "done"
        assert run.wait(30.0) == 0
        assert records(0) == [0], "a quiet process takes nothing"
    eventually(lambda: process_of(signing, group)["state"] == "stopped", 30.0, "its last report")
    assert signing.post(FORM, "/process/plan", id=name, action="quiet").status_code == 404


def test_a_node_of_a_swarm_is_restarted_and_other_processes_are_stopped(
    kafka: KafkaCluster, signing: Web, topic: str, group: str, tmp_path: Path
) -> None:
    kafka.create_topic(topic, partitions=2)
    environment = recorder(kafka, topic, group) | {"GRETE_WEB_COMMANDS_SECRET": SECRET}
    with SwarmRun(RECORDER, tmp_path, environment) as run:

        def nodes() -> dict[int, dict[str, Any]]:
            shown = [app for app in signing.json("/processes")["apps"] if app["app"] == group]
            alive = [one for app in shown for one in app["processes"] if one["is_alive"]]
            return {one["node"]: one for one in alive if one["lanes"] == 1}

        run.until(lambda: len(nodes()) == 2, 30.0, "both nodes report a partition")
        before = nodes()
        name = before[0]["id"]
        run.until(lambda: signing.json(f"/process?id={name}")["settings"], 30.0, "its settings")
        page = signing.json(f"/process?id={name}")
        assert page["commands"]["end"] == "restart"
        stop = signing.post(f"/process?id={name}", "/process/plan", id=name, action="stop")
        assert (stop.status_code, "send restart" in stop.text) == (400, True)
        answer = command(signing, name, "restart")
        assert (answer["result"], answer["text"]) == ("done", "stops: its supervisor starts the node again")
        run.until(lambda: len(nodes()) == 2 and nodes()[0]["id"] != name, 30.0, "the node runs again")
        assert nodes()[1]["id"] == before[1]["id"], "the other node goes on"
        with Producer(signing.settings) as producer:
            for partition in (0, 1):
                producer.produce_sync(topic, b"one", partition=partition)
        run.until(lambda: sum(node["lag"] or 0 for node in nodes().values()) == 0, 30.0, "both read")
        assert run.stop() == 0


def test_forged_replayed_and_expired_commands_are_refused_and_audited(
    kafka: KafkaCluster, signing: Web, topic: str, group: str, tmp_path: Path
) -> None:
    kafka.create_topic(topic)
    fill(kafka.bootstrap_servers, topic, 10)
    environment = recorder(kafka, topic, group) | {"GRETE_WEB_COMMANDS_SECRET": SECRET}
    with AppRun(RECORDER, tmp_path, environment) as run:
        name = started(signing, run, group, 1)
        now = int(time.time() * 1000)
        good = Command("replayed" + group, name, "dump_stacks", "ann", now, now + 60_000).encode()
        late = Command("late" + group, name, "stop", "ann", now - 120_000, now - 60_000).encode()
        other = Command("other" + group, "shop/host/1-ab", "stop", "ann", now, now + 60_000).encode()
        stop = Command("forged" + group, name, "stop", "eve", now, now + 60_000).encode()
        attacks = [
            (stop, None),
            (stop, sign("another secret of someone", stop)),
            (stop, sign(SECRET, good)),
            (late, sign(SECRET, late)),
            (other, sign(SECRET, other)),
            (good, sign(SECRET, good)),
            (good, sign(SECRET, good)),
            (b"[" * 5000, None),
            (os.urandom(60_000), None),
        ]
        with Producer(signing.settings) as producer:
            for value, signature in attacks:
                headers = [(SIGNATURE, signature)] if signature is not None else []
                producer.produce_sync(COMMANDS, value, key=name.encode(), headers=headers)
            # Those with another key are no business of this process.
            producer.produce_sync(COMMANDS, stop, key=b"someone")

        def results() -> list[tuple[str, str]]:
            found = [one for one in signing.json("/audit")["entries"] if one["process"] == name]
            return [(one["result"], one["text"].split(",")[0]) for one in reversed(found)]

        run.until(lambda: len(results()) == len(attacks), 30.0, "an entry for each")
        texts = [text for result, text in results() if result == "refused"]
        assert texts[:3] == ["it is not signed", *["its signature is of another secret"] * 2]
        assert "it has expired" in texts[3]
        assert texts[4:6] == ["it is for another process", "it came before"]
        assert len(texts) == len(attacks) - 1, "one was good"
        assert "[app.command_refused]" in run.output
        assert process_of(signing, group)["state"] == "running"
        # A flood of forged commands is no flood of answers, and does not hold up a good one.
        with Producer(signing.settings) as producer:
            for _ in range(2_000):
                producer.produce(COMMANDS, stop, key=name.encode())
        assert command_after_flood(signing, name) == "done"
        assert len(results()) < 200
        assert SECRET not in run.output
        assert run.stop() == 0


def command_after_flood(web: Web, name: str) -> str:
    sent = web.post(f"/process?id={name}", "/process/send", id=name, action="quiet")
    assert sent.status_code == 303
    found: list[str] = []

    def answered() -> bool:
        entries = web.json("/audit")["entries"]
        found[:] = [one["result"] for one in entries if one["action"] == "quiet" and one["result"] != "asked"]
        return bool(found)

    eventually(answered, 30.0, "the good one is obeyed")
    return found[0]


def test_who_may_send_and_which_processes_obey(
    kafka: KafkaCluster, web: Web, topic: str, group: str, tmp_path: Path
) -> None:
    kafka.create_topic(topic)
    for mode, cure in (
        ({}, "obeys no commands"),
        ({"GRETE_WEB_COMMANDS_SECRET": SECRET}, "grete web has no secret"),
        ({"GRETE_WEB_COMMANDS": "true"}, ""),
    ):
        with AppRun(RECORDER, tmp_path / str(len(cure)), recorder(kafka, topic, f"{group}{len(cure)}") | mode) as run:
            name = started(web, run, f"{group}{len(cure)}", 1)
            assert cure in web.json(f"/process?id={name}")["commands"]["cure"]
            answer = web.post(FORM, "/process/plan", id=name, action="stop")
            assert answer.status_code == (409 if cure else 200)
            access = Access({"vera": ("viewer", hash_password("vera-secret"))})
            viewer = web.new_browser(access, headers=basic("vera", "vera-secret"))
            page = viewer.get(f"/process?id={name}").text
            assert topic in page
            assert 'action="/process/plan"' not in page
            for fields in ({"action": "exec"}, {"action": "pause", "place": "x y 9"}, {"action": "seek", "place": ""}):
                assert web.post(FORM, "/process/send", id=name, **fields).status_code == (409 if cure else 400)
            forged = web.browser.post("/process/send", data={"id": name, "action": "stop", "csrf": "0" * 64})
            assert forged.status_code == 403
            assert process_of(web, f"{group}{len(cure)}")["state"] == "running"
            assert run.stop() == 0
