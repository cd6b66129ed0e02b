"""One of the records that a job produces is refused: its source is retried, dead-lettered, and never passed over."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

import grete
from tests.integration.app_in_process import FAST, dead_letters, header, make, running
from tests.integration.producers import producer, values
from tests.kafka import KafkaCluster, eventually

pytestmark = pytest.mark.kafka
BAD = 1
# Far more than FAST allows, the halves of a batch included.
MANY = 12


class Calls(Counter[int]):
    """How often a handler was given each offset."""

    def transform(self, message: grete.Message) -> bytes:
        self[message.offset] += 1
        assert message.value is not None
        return message.value + b"x" * (500 if message.offset == BAD else 1)


def plain(target: str, calls: Calls) -> type[grete.Consumer]:
    class Plain(grete.Consumer):
        def consume(self) -> None:
            for message in self.messages:
                self.producer.produce(target, calls.transform(message))

    return Plain


def many(target: str, calls: Calls) -> type[grete.Consumer]:
    class Many(grete.Consumer):
        def consume(self) -> None:
            self.producer.produce_many(target, [calls.transform(message) for message in self.messages])

    return Many


def marking(target: str, calls: Calls) -> type[grete.Consumer]:
    class Marking(grete.Consumer):
        def consume(self) -> None:
            for message in self.messages:
                self.producer.produce(target, calls.transform(message))
                self.mark(message)

    return Marking


def coroutine(target: str, calls: Calls) -> type[grete.Consumer]:
    class Coroutine(grete.Consumer):
        async def consume(self) -> None:
            for message in self.messages:
                self.producer.produce(target, calls.transform(message))

    return Coroutine


def waiting(target: str, calls: Calls) -> type[grete.Consumer]:
    class Waiting(grete.Consumer):
        def consume(self) -> None:
            for message in self.messages:
                self.producer.produce(target, calls.transform(message)).wait(30)

    return Waiting


Handler = Callable[[str, Calls], type[grete.Consumer]]
CASES: dict[str, tuple[Handler, dict[str, str]]] = {
    "partition": (plain, {"concurrency": "partition"}),
    "key": (plain, {"concurrency": "key"}),
    "unordered": (plain, {"concurrency": "unordered"}),
    "many": (many, {}),
    "marks": (marking, {}),
    "manual": (marking, {"offsets": "manual"}),
    "async": (coroutine, {}),
    # What the others have to be like.
    "waits": (waiting, {}),
}
each_case = pytest.mark.parametrize("case", CASES)


@pytest.fixture
def target(kafka: KafkaCluster, topic: str) -> str:
    """A topic that refuses the output of the bad record; the source holds three records then."""
    name = f"{topic}.out"
    kafka.create_topic(topic)
    kafka.create_topic(name, config={"max.message.bytes": 300})
    with producer(kafka.bootstrap_servers) as source:
        source.produce_many(topic, [(b"key-%d" % at, b"value-%d" % at) for at in range(3)], partition=0).wait(30)
    return name


def assert_good_ones(kafka: KafkaCluster, target: str) -> None:
    """Those that were not refused are there, at least once."""
    assert set(values(kafka, target)) == {b"value-0x", b"value-2x"}


@each_case
def test_a_source_whose_output_is_refused_is_dead_lettered(
    kafka: KafkaCluster, topic: str, group: str, target: str, case: str
) -> None:
    dlq = f"{topic}.dlq"
    kafka.create_topic(dlq)
    handler, settings = CASES[case]
    calls = Calls()
    app = make(kafka, group)
    app.consumer(topic, retry=FAST, dead_letter=dlq, **settings)(handler(target, calls))  # type: ignore[arg-type]
    with running(app):
        eventually(lambda: kafka.admin.lag(group, [topic]) == 0, 30.0, lambda: f"all is committed; {app.statistics()}")
        # What is committed is written or dead-lettered at this moment, not some time later.
        dead = dead_letters(kafka, dlq)
        assert [header(row, "grete.source.offset") for row in dead] == [str(BAD)]
        assert_good_ones(kafka, target)
    assert dead[0].value == b"value-1"
    assert header(dead[0], "grete.error.class") == "grete.errors.DeliveryError"
    assert "max.message.bytes" in header(dead[0], "grete.error.message")
    assert int(header(dead[0], "grete.attempts")) >= 3
    assert calls[BAD] >= 3


@each_case
def test_a_source_whose_output_is_refused_is_retried_without_a_dead_letter_topic(
    kafka: KafkaCluster, topic: str, group: str, target: str, case: str
) -> None:
    handler, settings = CASES[case]
    calls = Calls()
    app = make(kafka, group)
    app.consumer(topic, retry=FAST, **settings)(handler(target, calls))  # type: ignore[arg-type]

    def committed() -> int:
        return kafka.admin.committed(group).get((topic, 0), 0)

    with running(app):
        eventually(lambda: calls[BAD] >= MANY or committed() > BAD, 30.0, lambda: f"it is tried again; {calls}")
        assert committed() <= BAD
    assert committed() <= BAD, "the stop commits what is behind it neither"
    assert calls[BAD] >= MANY


@pytest.mark.parametrize("case", ["partition", "many", "async"])
def test_an_output_topic_that_is_misspelt_is_a_typed_failure_of_the_job(
    kafka: KafkaCluster, topic: str, group: str, target: str, case: str
) -> None:
    """`max.block.ms` is a minute: brokers that know no such topic end the wait long before."""
    dlq = f"{topic}.dlq"
    kafka.create_topic(dlq)
    handler, settings = CASES[case]
    app = make(kafka, group, {"topic.metadata.propagation.max.ms": 100})
    retry = grete.Retry(attempts=3, backoff="10ms..50ms", never=grete.UnknownTopicError)
    app.consumer(topic, retry=retry, dead_letter=dlq, **settings)(handler(f"{target}z", Calls()))  # type: ignore[arg-type]
    with running(app):
        eventually(lambda: kafka.admin.lag(group, [topic]) == 0, 60.0, lambda: f"all is committed; {app.statistics()}")
    dead = dead_letters(kafka, dlq)
    assert {row.value for row in dead} == {b"value-0", b"value-1", b"value-2"}
    for row in dead:
        name = "UnknownTopicDeliveryError" if case == "async" else "UnknownTopicError"
        assert header(row, "grete.error.class") == f"grete.errors.{name}"
        assert f'there is no topic "{target}z"' in header(row, "grete.error.message")
