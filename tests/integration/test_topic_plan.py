"""`grete topics plan` and `apply`: topics of brokers become those that an App declares."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.administration import seen, settings
from tests.integration.commands import Done
from tests.kafka import KafkaCluster

pytestmark = pytest.mark.kafka

# A stand-in with the attributes of `grete.Topic`, so that a test declares what it likes in one line.
APP = """
from types import SimpleNamespace
import grete

app = grete.App("shop")

def topic(name, partitions=None, replication=None, config=None):
    return SimpleNamespace(
        name=name, key=None, value=None, partitions=partitions, replication=replication, config=config or {{}},
        location="shop.py:1",
    )

app.__dict__["topics"] = {{made.name: made for made in [{topics}]}}
"""


class Shop:
    """An App that declares topics, and the commands for them."""

    def __init__(self, kafka: KafkaCluster, directory: Path) -> None:
        self._kafka = kafka
        self._directory = directory

    @property
    def file(self) -> Path:
        return self._directory / "shop.py"

    def declare(self, *topics: str) -> None:
        self.file.write_text(APP.format(topics=", ".join(topics)))

    def __call__(self, *words: str) -> Done:
        command = [sys.executable, "-m", "grete", "topics", words[0], "shop:app", *words[1:]]
        command += ["--bootstrap", self._kafka.bootstrap_servers]
        done = subprocess.run(
            command, cwd=self._directory, input="", capture_output=True, text=True, check=False, timeout=60
        )
        assert "Traceback" not in done.stderr, done.stderr
        return Done(done.returncode, done.stdout, done.stderr)


@pytest.fixture
def shop(kafka: KafkaCluster, tmp_path: Path) -> Shop:
    return Shop(kafka, tmp_path)


def test_creates_then_alters_and_then_has_nothing_to_do(kafka: KafkaCluster, shop: Shop, topic: str) -> None:
    shop.declare(f'topic("{topic}", 2, 1, {{"retention.ms": 3600000, "cleanup.policy": "delete"}})')
    planned = shop("plan")
    line = f"+ {topic}: create: 2 partitions, replication 1, retention.ms=3600000, cleanup.policy=delete\n"
    assert (planned.status, planned.out, planned.err) == (2, line, "1 change\n")
    assert seen(kafka.bootstrap_servers, topic) is None, "a plan changes nothing"
    made = shop("apply", "--yes")
    assert (made.status, made.out, made.err) == (0, line, "1 change\n1 change made\n")
    found = seen(kafka.bootstrap_servers, topic)
    assert found is not None
    assert len(found.partitions) == 2
    assert settings(kafka.bootstrap_servers, topic)["retention.ms"] == "3600000"
    for command in (("plan",), ("apply", "--yes")):
        again = shop(*command)
        assert (again.status, again.out) == (0, "")
        assert again.err == "nothing to do: the topics are as declared\n"

    shop.declare(f'topic("{topic}", 3, None, {{"retention.ms": 7200000, "compression.type": "zstd"}})')
    assert shop("plan", "--json").rows == [
        {
            "topic": topic,
            "change": "add_partitions",
            "text": "partitions 2 -> 3; new records of a key may go to another partition than its old ones",
        },
        {"topic": topic, "change": "alter_config", "text": "retention.ms 3600000 -> 7200000"},
        {"topic": topic, "change": "alter_config", "text": "compression.type producer -> zstd"},
    ]
    done = shop("apply", "--yes", "--json")
    assert (done.status, [row["done"] for row in done.rows]) == (0, [True] * 3)
    found = seen(kafka.bootstrap_servers, topic)
    assert found is not None
    assert len(found.partitions) == 3
    now = settings(kafka.bootstrap_servers, topic)
    assert (now["retention.ms"], now["compression.type"]) == ("7200000", "zstd")
    assert shop("plan").status == 0


def test_apply_without_a_terminal_names_options_that_it_has(kafka: KafkaCluster, shop: Shop, topic: str) -> None:
    shop.declare(f'topic("{topic}", 2, 1)')
    refused = shop("apply")
    assert refused.status == 2
    assert "--dry-run" in refused.err
    shown, planned = shop("apply", "--dry-run"), shop("plan")
    assert (shown.status, shown.out, shown.err) == (planned.status, planned.out, planned.err)
    assert planned.status == 2
    assert seen(kafka.bootstrap_servers, topic) is None, "a dry run changes nothing"


def test_what_is_not_declared_stays(kafka: KafkaCluster, shop: Shop, topic: str) -> None:
    kafka.create_topic(topic, partitions=3, config={"retention.ms": "1000"})
    shop.declare(f'topic("{topic}")')
    assert shop("plan").status == 0
    assert shop("apply").status == 0, "without a change there is no question"


def test_loss_of_records_is_refused_unless_the_topic_is_named(kafka: KafkaCluster, shop: Shop, topic: str) -> None:
    kafka.create_topic(topic, partitions=3, config={"retention.ms": "7200000"})
    before = seen(kafka.bootstrap_servers, topic)
    shop.declare(f'topic("{topic}", 2, 2, {{"retention.ms": 1000, "cleanup.policy": "compact"}})')
    planned = shop("plan")
    assert planned.status == 2
    assert planned.err == "0 changes, 4 refused\n"
    refused = planned.out.splitlines()
    assert [line.partition(" -> ")[0] for line in refused] == [
        f"! {topic}: refused: partitions 3",
        f"! {topic}: refused: replication 1",
        f"! {topic}: refused: retention.ms 7200000",
        f"! {topic}: refused: cleanup.policy delete",
    ]
    assert f"--recreate {topic}" in refused[0]
    assert f"--allow-loss {topic}" in refused[2]
    done = shop("apply", "--yes")
    assert (done.status, "Error: 4 changes refused" in done.err) == (1, True)
    assert settings(kafka.bootstrap_servers, topic)["retention.ms"] == "7200000"

    done = shop("apply", "--yes", "--allow-loss", topic)
    assert (done.status, "2 changes made" in done.err, "2 changes refused" in done.err) == (1, True, True)
    assert settings(kafka.bootstrap_servers, topic)["cleanup.policy"] == "compact"
    found = seen(kafka.bootstrap_servers, topic)
    assert found is not None
    assert before is not None
    assert len(found.partitions) == len(before.partitions)

    shop.declare(f'topic("{topic}", 2, 1)')
    assert shop("apply", "--yes", "--recreate", topic).status == 0
    found = seen(kafka.bootstrap_servers, topic)
    assert found is not None
    assert len(found.partitions) == 2
    assert settings(kafka.bootstrap_servers, topic)["cleanup.policy"] == "delete"


def test_longer_retention_loses_nothing(kafka: KafkaCluster, shop: Shop, topic: str) -> None:
    kafka.create_topic(topic, partitions=1, config={"retention.ms": "1000", "cleanup.policy": "compact,delete"})
    shop.declare(f'topic("{topic}", config={{"retention.ms": -1, "cleanup.policy": "compact"}})')
    assert shop("apply", "--yes").status == 0
    shop.declare(f'topic("{topic}", config={{"retention.ms": 1000000}})')
    assert "refused" in shop("plan").out


def test_deletes_only_what_is_named_and_not_declared(kafka: KafkaCluster, shop: Shop, topic: str) -> None:
    kafka.create_topic(topic, partitions=1)
    shop.declare(f'topic("{topic}")')
    declared = shop("plan", "--delete", topic)
    assert (declared.status, "remove the declaration first" in declared.err) == (1, True)
    shop.declare()
    planned = shop("plan", "--delete", topic)
    assert (planned.status, planned.out) == (2, f"- {topic}: delete, with all records\n")
    assert shop("apply", "--delete", topic).status == 2, "no terminal, and no --yes"
    assert seen(kafka.bootstrap_servers, topic) is not None
    assert shop("apply", "--yes", "--delete", topic).status == 0
    assert seen(kafka.bootstrap_servers, topic) is None


def test_brokers_check_a_plan(shop: Shop, topic: str) -> None:
    shop.declare(f'topic("{topic}", config={{"retention.hours": 1}})')
    planned = shop("plan")
    assert (planned.status, planned.err.startswith("Error: ")) == (1, True)
    assert "retention.hours" in planned.err


def test_wrong_names_and_no_declaration(shop: Shop, topic: str) -> None:
    shop.declare(f'topic("{topic}")')
    for option in ("--recreate", "--allow-loss"):
        done = shop("plan", option, "nothing")
        assert (done.status, f'{option} nothing: the App does not declare "nothing"' in done.err) == (1, True)
    done = shop("plan", "--recreate", topic)
    assert (done.status, f'there is no topic "{topic}"' in done.err) == (1, True)
    shop.declare()
    done = shop("plan")
    assert (done.status, "declares no topics" in done.err) == (1, True)


def test_names_topics_that_the_app_writes_to_and_does_not_declare(shop: Shop, topic: str) -> None:
    shop.declare(f'topic("{topic}", 1)')
    with shop.file.open("a") as file:
        file.write(
            f'app.consumer("{topic}", publish="{topic}-out", dead_letter="{topic}-dlq")(lambda messages: None)\n'
        )
    planned = shop("plan")
    assert planned.out == f"+ {topic}: create: 1 partition, default replication\n", planned.err
    for name, options in ((f"{topic}-dlq", " --config retention.ms=-1"), (f"{topic}-out", "")):
        assert f'topic "{name}" does not exist, and the App writes to it without declaring it' in planned.err
        assert f"grete topics create {name}{options}\n" in planned.err
