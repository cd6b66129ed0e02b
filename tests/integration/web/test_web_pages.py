"""Pages beside brokers: records are inert, replays arrive once, viewers see no payload."""

from __future__ import annotations

import dataclasses
import re

import pytest

from grete._web import topics
from grete._web.security.access import Access, hash_password
from grete._web.security.masking import parse_masks
from grete._web.server.application import PAGES
from grete._web.server.records import FORMS
from grete._web.state.errors import ErrorGroup
from grete.client import Admin, Producer
from tests.integration.web.conftest import Web
from tests.kafka import KafkaCluster, eventually
from tests.unit.web.simulated_reports import error, report, settings
from tests.unit.web.test_guard import basic

pytestmark = pytest.mark.kafka
MARKUP = "<script>alert(1)</script><img src=x onerror=alert(1)>"


def write_letter(producer: Producer, letters: str, source: str, text: str = MARKUP) -> None:
    headers = {
        "grete.source.topic": source.encode(),
        "grete.source.partition": b"0",
        "grete.source.offset": b"0",
        "grete.attempts": b"3",
        "grete.error.class": text.encode(),
        "grete.error.message": text.encode(),
        "shop": text.encode(),
    }
    producer.produce_sync(letters, text.encode(), key=text.encode(), headers=headers)


def test_the_topics_are_set_up_once_and_corrected(kafka: KafkaCluster, web: Web) -> None:
    with Admin(web.settings) as admin:
        assert topics.create_topics(admin, 1, 30.0) == ([], [])
        admin.alter_config(topics.REPORTS, {"retention.ms": 1000})
        eventually(lambda: any(state.differences for state in topics.topic_states(admin, 30.0)), 10.0, "a difference")
        assert topics.create_topics(admin, 1, 30.0) == ([], [topics.REPORTS])
        eventually(lambda: not any(state.differences for state in topics.topic_states(admin, 30.0)), 10.0, "none")


def test_markup_in_records_is_inert_on_every_page(kafka: KafkaCluster, web: Web, topic: str) -> None:
    letters = f"{topic}.dlq"
    kafka.create_topic(topic)
    kafka.create_topic(letters)
    with Producer(web.settings) as producer:
        producer.produce_sync(topic, MARKUP.encode(), key=MARKUP.encode(), headers=[(MARKUP, MARKUP.encode())])
        write_letter(producer, letters, topic)
        process = {"id": f"{topic}-1", "app": MARKUP, "host": MARKUP, "pid": 1}
        producer.produce_sync(topics.REPORTS, report(process=process), key=b"x")
        producer.produce_sync(topics.REPORTS, settings(dead_letter=letters), key=b"x#settings")
        producer.produce_sync(topics.ERRORS, error(app=MARKUP, message=MARKUP, handler=topic, traceback=MARKUP))

    def mine() -> list[ErrorGroup]:
        return [one for one in web.store.errors.groups() if one.example.handler == topic]

    eventually(lambda: mine() and web.store.fleet.get(f"{topic}-1"), 30.0, "the records are read")
    for path in PAGES:
        place = letters if path.startswith("/letters") else topic
        url = path.format(topic=place, partition=0, offset=0, id=mine()[0].id)
        url += {"/process": f"?id={topic}-1", "/group": "?name=nobody"}.get(path, "")
        answer = web.browser.get(url)
        assert answer.status_code == (404 if path == "/group" else 200), (url, answer.text)
        assert "<script>alert" not in answer.text, url
        assert "<img src=x" not in answer.text, url
    found = web.post(f"/topics/{topic}/records", f"/topics/{topic}/search", key=MARKUP)
    assert found.status_code == 200
    assert "1 found among 1 records" in " ".join(found.text.split())
    assert "<script>alert" not in found.text
    file = web.browser.get(f"/topics/{topic}/0/0/download?part=value")
    assert file.content == MARKUP.encode()
    assert file.headers["content-type"] == "application/octet-stream"
    assert file.headers["content-disposition"].startswith("attachment")


def test_a_letter_is_replayed_once(kafka: KafkaCluster, web: Web, topic: str) -> None:
    letters = f"{topic}.dlq"
    kafka.create_topic(topic)
    kafka.create_topic(letters)
    with Producer(web.settings) as producer:
        for number in range(3):
            write_letter(producer, letters, topic, f"letter {number}")
    plan = web.post(f"/letters/{letters}", f"/letters/{letters}/plan")
    assert "Send 3 records" in plan.text
    assert web.gateway.ranges(topic)[0] == (0, 0), "a plan sends nothing"
    for _ in range(2):  # the second time has nothing to send
        sent = web.post(f"/letters/{letters}", f"/letters/{letters}/replay", partition=0, offset=1)
        assert (sent.status_code, sent.headers["location"]) == (303, f"/letters/{letters}")
        eventually(lambda: all(run.done for run in web.replays.runs), 30.0, "the replay ends")
    assert [(run.error, run.replayed.total()) for run in web.replays.runs] == [("", 1), ("", 0)]
    states = {row["offset"]: row["replayed"] for row in web.json(f"/letters/{letters}")["letters"]}
    assert states == {0: False, 1: True, 2: False}
    web.post(f"/letters/{letters}", f"/letters/{letters}/replay", error="letter ?")
    eventually(lambda: all(run.done for run in web.replays.runs), 30.0, "the replay ends")
    assert web.replays.runs[-1].replayed.total() == 2, "all but the one that was sent"
    page = web.json(f"/topics/{topic}/records")
    assert sorted(row["value_line"] for row in page["records"]) == ["letter 0", "letter 1", "letter 2"]


def test_viewers_see_places_and_no_payload(kafka: KafkaCluster, web: Web, topic: str) -> None:
    letters = f"{topic}.dlq"
    kafka.create_topic(letters)
    with Producer(web.settings) as producer:
        write_letter(producer, letters, topic, "card 4711")
    access = Access({"vera": ("viewer", hash_password("vera-secret"))})
    viewer = web.new_browser(access, headers=basic("vera", "vera-secret"))
    for path in (f"/topics/{letters}/records", f"/topics/{letters}/0/0", f"/letters/{letters}/0/0"):
        for prefix in ("", "/api"):
            answer = viewer.get(prefix + path)
            assert answer.status_code == 200, path
            # The class of the error is shown. Here it is the text, too, so its places are taken out.
            shown = answer.text.replace('"class":"card 4711"', "").replace("<h2>card 4711</h2>", "")
            assert "4711" not in shown.replace("<strong>card 4711</strong>", ""), prefix + path


def test_what_is_masked_is_on_no_page_and_in_no_file(kafka: KafkaCluster, web: Web, topic: str) -> None:
    letters = f"{topic}.dlq"
    kafka.create_topic(topic)
    kafka.create_topic(letters)
    value = '{"card": {"number": "secret"}, "shop": "Berlin"}'
    with Producer(web.settings) as producer:
        producer.produce_sync(topic, value.encode(), key=b"customer secret", headers={"token": b"secret"})
        own = {
            "grete.source.topic": topic.encode(),
            "grete.error.class": b"ValueError",
            "grete.error.message": b"no secret",
        }
        producer.produce_sync(letters, value.encode(), key=b"customer secret", headers=own)
    masks = [f"{topic}:value.card.number", f"{topic}:key", "*:headers.token"]
    web.parts = dataclasses.replace(web.parts, masks=parse_masks(masks))
    browser = web.new_browser()
    places = [f"/topics/{topic}/records", f"/topics/{topic}/0/0", f"/letters/{letters}", f"/letters/{letters}/0/0"]
    for path in [*places, *(f"/api{place}" for place in places), *(f"/topics/{topic}/0/0?as={form}" for form in FORMS)]:
        answer = browser.get(path)
        assert answer.status_code == 200, path
        assert not re.search("secret|73 65 63 72 65 74", answer.text), path
    assert "Berlin" in browser.get(f"/topics/{topic}/0/0").text, "the rest of the value is shown"
    file = browser.get(f"/topics/{topic}/0/0/download?part=value")
    assert file.json() == {"card": {"number": "***"}, "shop": "Berlin"}
    assert file.headers["content-disposition"].endswith(".masked.value")
    assert browser.get(f"/topics/{topic}/0/0/download?part=key").content == b"***"
    token = re.search(r'name="csrf" value="(\w+)"', browser.get(f"/letters/{letters}").text)
    assert token is not None
    found = browser.post(f"/topics/{topic}/search", data={"csrf": token[1], "key": "customer secret"})
    assert (found.status_code, "are masked" in found.text) == (403, True)
    found = browser.post(f"/topics/{letters}/search", data={"csrf": token[1], "key": "customer secret"})
    assert "0 found among 1 records" in " ".join(found.text.split()), "its source has the mask"
    assert "Find records of this key" not in browser.get(f"/topics/{topic}/records").text


def test_explorer_finds_places_and_times(kafka: KafkaCluster, web: Web, topic: str) -> None:
    kafka.create_topic(topic, partitions=2)
    with Producer(web.settings) as producer:
        for number in range(120):
            producer.produce(
                topic,
                b"%d" % number,
                key=b"k%d" % (number % 7),
                partition=0,
                timestamp=1_700_000_000_000 + number * 1000,
            )
        producer.produce(topic, bytes(range(256)), partition=1)
        producer.produce(topic, None, key=b"gone", partition=1)
        producer.flush()
    page = web.json(f"/topics/{topic}/records?partition=0&offset=60")
    assert [row["offset"] for row in page["records"]] == list(range(60, 110))
    assert (page["previous"], page["next"]) == (10, 110)
    last = web.json(f"/topics/{topic}/records?partition=0")
    assert [row["offset"] for row in last["records"]] == list(range(70, 120))
    assert last["next"] is None
    timed = web.json(f"/topics/{topic}/records?partition=0&at=2023-11-14T22:14:20")
    assert timed["records"][0]["offset"] == 60
    assert web.json(f"/topics/{topic}/1/0")["value"]["form"] == "hex"
    assert web.json(f"/topics/{topic}/1/1")["value"]["form"] == "null"
    found = web.post(f"/topics/{topic}/records", f"/topics/{topic}/search", key="k3")
    assert "17 found among 122 records" in " ".join(found.text.split())
    for path in (
        f"/topics/{topic}/0/120",
        f"/topics/{topic}/7/0",
        f"/topics/{topic}-no/records",
        f"/topics/{topic}/records?partition=2",
    ):
        assert web.browser.get(path).status_code == 404, path
