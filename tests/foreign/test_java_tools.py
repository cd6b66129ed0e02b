"""Kafka's command line tools and its verifiable clients, on Grete's brokers and on Apache Kafka."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.foreign.java_tools import JavaTools
from tests.kafka import KafkaCluster, eventually
from tests.kafka.embedded import EmbeddedCluster

pytestmark = [pytest.mark.kafka, pytest.mark.apache("the tools are Kafka's own, in Java")]
GROUPS = "consumer.group.ConsumerGroupCommand"


@pytest.fixture(scope="module", params=["embedded", "apache"])
def servers(request: pytest.FixtureRequest) -> Iterator[str]:
    """The addresses of Grete's brokers and of Apache Kafka, in turn."""
    if request.param == "apache":
        cluster: KafkaCluster = request.getfixturevalue("kafka")
        yield cluster.bootstrap_servers
        return
    with EmbeddedCluster(nodes=3) as brokers:
        yield brokers.bootstrap_servers


@pytest.fixture(scope="module")
def tool(servers: str) -> Iterator[JavaTools]:
    with JavaTools(servers) as running:
        yield running


def create(tool: JavaTools, topic: str, partitions: int, *config: str) -> None:
    settings = [word for setting in config for word in ("--config", setting)]
    tool("TopicCommand", "--create", "--topic", topic, "--partitions", str(partitions), *settings)


def write(tool: JavaTools, topic: str, count: int) -> None:
    text = "".join(f"key-{number}:value-{number}\n" for number in range(count))
    keys = ("--reader-property", "parse.key=true", "--reader-property", "key.separator=:")
    tool("ConsoleProducer", "--topic", topic, *keys, "--sync", text=text)


def offsets(tool: JavaTools, topic: str, time: str) -> dict[int, int]:
    rows = (line.split(":") for line in tool("GetOffsetShell", "--topic", topic, "--time", time).output.split())
    return {int(partition): int(offset) for _, partition, offset in rows}


def positions(tool: JavaTools, group: str) -> dict[int, int]:
    """The committed offset of each partition."""
    lines = tool(GROUPS, "--describe", "--group", group).lines
    return {int(words[2]): int(words[3]) for words in lines if words[0] == group}


def test_topics_are_created_altered_and_deleted(tool: JavaTools, topic: str) -> None:
    create(tool, topic, 3, "retention.ms=100000")
    assert "already exists" in tool("TopicCommand", "--create", "--topic", topic, status=1).output
    tool("TopicCommand", "--alter", "--topic", topic, "--partitions", "5")
    refused = tool("TopicCommand", "--alter", "--topic", topic, "--partitions", "2", status=1)
    assert "currently has 5 partition" in refused.output
    described = tool("TopicCommand", "--describe", "--topic", topic).output
    assert "PartitionCount: 5" in described
    assert "retention.ms=100000" in described
    assert [topic] in tool("TopicCommand", "--list").lines
    tool("TopicCommand", "--delete", "--topic", topic)
    assert [topic] not in tool("TopicCommand", "--list").lines


def test_console_clients_write_and_read(tool: JavaTools, topic: str, group: str) -> None:
    create(tool, topic, 3)
    write(tool, topic, 50)
    common = ("--topic", topic, "--from-beginning", "--max-messages", "50", "--timeout-ms", "60000")
    read = tool("consumer.ConsoleConsumer", *common, "--group", group, "--formatter-property", "print.key=true")
    assert sorted(map(tuple, read.lines)) == sorted((f"key-{number}", f"value-{number}") for number in range(50))
    assert sum(offsets(tool, topic, "latest").values()) == 50
    assert sum(positions(tool, group).values()) == 50
    state = tool(GROUPS, "--describe", "--group", group, "--state").lines[-1]
    assert (state[0], state[-2:]) == (group, ["Empty", "0"])


def test_offsets_of_a_group_are_reset_and_deleted(tool: JavaTools, topic: str, group: str) -> None:
    create(tool, topic, 1)
    write(tool, topic, 10)
    reset = ("--reset-offsets", "--group", group, "--topic", topic)
    for how, expected in [
        (("--to-latest",), 10),
        (("--to-offset", "5"), 5),
        (("--shift-by", "-2"), 3),
        (("--to-datetime", "2020-01-01T00:00:00.000"), 0),
        (("--by-duration", "PT0S"), 10),
        (("--to-earliest",), 0),
    ]:
        tool(GROUPS, *reset, *how, "--execute")
        assert positions(tool, group) == {0: expected}, how
    tool(GROUPS, *reset, "--to-latest", "--dry-run")
    assert positions(tool, group) == {0: 0}
    deleted = tool(GROUPS, "--delete-offsets", "--group", group, "--topic", topic).lines
    assert [topic, "0", "Successful"] in deleted
    tool(GROUPS, *reset, "--to-latest", "--execute")
    assert "successful" in tool(GROUPS, "--delete", "--group", group).output
    assert "GroupIdNotFoundException" in tool(GROUPS, "--delete", "--group", group).output


def test_settings_are_changed_and_records_deleted(tool: JavaTools, topic: str, tmp_path: Path) -> None:
    create(tool, topic, 2)
    write(tool, topic, 20)
    tool("kafka.admin.ConfigCommand", "--alter", "--topic", topic, "--add-config", "retention.ms=5000000")
    described = tool("kafka.admin.ConfigCommand", "--describe", "--topic", topic).output
    assert "retention.ms=5000000" in described
    tool("kafka.admin.ConfigCommand", "--alter", "--topic", topic, "--delete-config", "retention.ms")
    assert "retention.ms=5000000" not in tool("kafka.admin.ConfigCommand", "--describe", "--topic", topic).output
    plan = tmp_path / "records.json"
    partitions = [{"topic": topic, "partition": 0, "offset": 1}, {"topic": topic, "partition": 1, "offset": -1}]
    plan.write_text(json.dumps({"version": 1, "partitions": partitions}))
    tool("DeleteRecordsCommand", "--offset-json-file", str(plan))
    assert offsets(tool, topic, "earliest") == {0: 1, 1: offsets(tool, topic, "latest")[1]}


def test_transactions_are_written_listed_and_described(tool: JavaTools, servers: str, topic: str) -> None:
    create(tool, topic, 2)
    load = ("--num-records", "500", "--record-size", "50", "--throughput", "-1")
    client = ("--command-property", f"bootstrap.servers={servers}")
    transactional = ("--transactional-id", topic, "--transaction-duration-ms", "20")
    tool("ProducerPerformance", "--topic", topic, *load, *client, *transactional, servers=False)
    common = ("--topic", topic, "--from-beginning", "--max-messages", "500", "--timeout-ms", "60000")
    read = tool("consumer.ConsoleConsumer", *common, "--isolation-level", "read_committed")
    assert len(read.lines) == 500

    def states() -> list[str]:
        return [words[-1] for words in tool("TransactionsCommand", "list").lines if words[0] == topic]

    # One coordinator lists it, and each broker can be searched for transactions that hang.
    eventually(lambda: states() == ["CompleteCommit"], 30.0, "one transaction, complete")
    described = tool("TransactionsCommand", "describe", "--transactional-id", topic).lines[-1]
    assert described[1] == topic

    def producers(partition: int) -> int:
        """Rows without the header. The producer may have written to one partition alone."""
        return (
            len(
                tool("TransactionsCommand", "describe-producers", "--topic", topic, "--partition", str(partition)).lines
            )
            - 1
        )

    assert producers(0) + producers(1) >= 1
    assert len(tool("TransactionsCommand", "find-hanging", "--broker-id", "1").lines) == 1
