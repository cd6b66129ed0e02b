"""grete.testing: records that handlers produce, and deliveries that fail."""

import pytest

import grete
from grete import testing


def forward(consumer: grete.Consumer) -> None:
    for message in consumer.messages:
        consumer.producer.produce("out", message.value, key=message.key, headers=message.headers, timestamp=7)


class Forwards(grete.Consumer):
    def consume(self) -> None:
        forward(self)


def test_produced_records_are_as_produced() -> None:
    run = testing.consume(Forwards, "in", [b"1", None], key="k", headers={"trace": "x", "none": None})
    first, second = run.produced["out"]
    assert (first.topic, first.partition, first.offset, first.timestamp) == ("out", 0, 0, 7)
    assert (first.value, first.key) == (b"1", b"k")
    assert first.headers == (("trace", b"x"), ("none", None))
    assert (second.value, second.offset) == (None, 1)
    assert run.produced["other"] == []
    assert list(run.produced) == ["out"]


def test_produced_records_are_records_for_the_next_run() -> None:
    run = testing.consume(Forwards, "in", [b"1", b"2"], key="k")
    again = testing.consume(Forwards, "out", run.produced["out"])
    assert again.produced["out"].values() == [b"1", b"2"]


def test_partitions_of_topics() -> None:
    class Spreads(grete.Consumer):
        def consume(self) -> None:
            self.producer.produce("out", b"1", partition=6)
            assert self.producer.partitions("out") == 8
            assert self.producer.partitions("other") == 1

    run = testing.consume(Spreads, "in", [b"1"], topics={"out": 8})
    run.raise_first()
    assert run.produced["out"][0].partition == 6
    failed = testing.consume(Spreads, "in", [b"1"], retry=grete.Retry(1))
    assert "has no partition 6" in str(failed.errors[0])


def test_every_way_to_produce() -> None:
    class Produces(grete.Consumer):
        def consume(self) -> None:
            assert self.producer.produce("a", b"1").wait(1.0).offset == 0
            assert self.producer.produce_sync("a", b"2").offset == 1
            self.producer.produce_many("a", [b"3", b"4"]).wait(1.0)
            self.producer.fire_and_forget.produce("a", b"5")
            self.producer.flush(1.0)

    run = testing.consume(Produces, "in", [b"1"])
    run.raise_first()
    assert run.produced["a"].values() == [b"1", b"2", b"3", b"4", b"5"]


def test_a_failed_delivery_holds_back_the_mark_and_fails_the_job() -> None:
    run = testing.consume(Forwards, "in", [b"1"], fail_delivery="out", retry=grete.Retry(attempts=3, backoff="1s"))
    assert (run.marked, run.committed, run.attempts, run.waited) == ([], None, {0: 3}, 2.0)
    assert all(isinstance(error, grete.DeliveryError) for error in run.errors)
    assert [failure.outcome for failure in run.failures] == ["retry"] * 3
    assert run.produced == {}


def test_failed_deliveries_lead_to_the_dead_letter_topic() -> None:
    run = testing.consume(
        Forwards, "in", [b"1", b"2"], fail_delivery=["out"], dead_letter="dlq", retry=grete.Retry(2), max_messages=1
    )
    assert (run.marked, [dead.error for dead in run.dead]) == ([], ["DeliveryError", "DeliveryError"])
    assert run.committed == 2


def test_a_mark_after_a_record_that_was_not_written_names_the_record() -> None:
    class Marks(grete.Consumer):
        def consume(self) -> None:
            try:
                self.producer.produce_sync("out", b"1")
            except grete.DeliveryError:
                self.mark(self.messages)

    run = testing.consume(Marks, "in", [b"1"], fail_delivery="out", retry=grete.Retry(1), dead_letter="dlq")
    (error,) = run.errors
    assert isinstance(error, grete.DeliveryError)
    assert (error.topic, error.partition, error.outcome, error.name) == ("out", 0, "not_written", "INVALID_RECORD")
    assert "the mark does not count" in str(error)


def test_delivery_callbacks_run() -> None:
    outcomes: list[object] = []

    class Calls(grete.Consumer):
        def consume(self) -> None:
            delivery = self.producer.produce(
                "out", b"1", on_delivery=lambda delivery: outcomes.append(delivery.outcome)
            )
            assert not delivery.done

    testing.consume(Calls, "in", [b"1"]).raise_first()
    assert outcomes == ["written"]
    testing.consume(Calls, "in", [b"1"], fail_delivery={"out": 1})
    assert outcomes == ["written", "not_written", "written"]


def test_the_first_deliveries_fail() -> None:
    run = testing.consume(Forwards, "in", [b"1"], fail_delivery={"out": 2})
    assert (run.marked, run.attempts) == ([0], {0: 3})
    assert run.produced["out"].values() == [b"1"]


@pytest.mark.parametrize("refused", ["oot", ["oot"], {"oot": 1}, {"out": 1, "oot": 1}], ids=str)
def test_a_refusal_of_a_topic_without_records_is_an_error(refused: testing._offline.FailDelivery) -> None:
    with pytest.raises(grete.GreteError, match='topic "oot", and nothing was produced to it; did you mean "out"'):
        testing.consume(Forwards, "in", [b"1"], fail_delivery=refused)


def test_a_refusal_without_records_is_an_error_beside_one_that_has_some() -> None:
    with pytest.raises(grete.GreteError, match='topic "oot", and nothing was produced to it'):
        testing.consume(Forwards, "in", [b"1"], retry=grete.Retry(1), dead_letter="dlq", fail_delivery=["out", "oot"])


def test_a_failure_before_the_refusal_is_named() -> None:
    def fail(message: grete.Message) -> None:
        raise ValueError("no such order")

    with pytest.raises(grete.GreteError, match=r"to it; the first failure .*no such order") as info:
        testing.consume(fail, "in", [b"1"], retry=grete.Retry(1), fail_delivery="out")
    assert isinstance(info.value.__cause__, ValueError)


def test_refusals_that_no_handler_hears_of_are_none_of_an_unused_topic() -> None:
    class Forgets(grete.Consumer):
        def consume(self) -> None:
            for topic in ("out", "more"):
                self.producer.fire_and_forget.produce(topic, b"1")

    assert testing.consume(Forgets, "in", [b"1"], fail_delivery=["out", "more"]).produced == {}


def test_a_mark_before_a_failed_record_counts() -> None:
    class MarksBetween(grete.Consumer):
        def consume(self) -> None:
            first, second = self.messages[0], self.messages[-1]
            if first.offset == 0:
                self.producer.produce("good", b"1")
                self.mark(first)
            self.producer.produce("out", b"2")
            self.mark(second)

    run = testing.consume(MarksBetween, "in", [b"0", b"1"], fail_delivery="out", retry=grete.Retry(2))
    assert (run.marked, run.committed) == ([0], 1)
    assert run.produced["good"].values() == [b"1"]
    assert run.attempts == {0: 1, 1: 2}


def test_a_dead_letter_topic_that_refuses_records() -> None:
    def fail(message: grete.Message) -> None:
        raise ValueError("no")

    def run(refused: int | None) -> testing.Run:
        return testing.consume(
            fail, "in", [b"1"], dead_letter="dlq", retry=grete.Retry(2), fail_delivery={"dlq": refused}
        )

    late = run(3)
    assert ([dead.offset for dead in late.dead], late.committed) == ([0], 1)
    assert [failure.hook for failure in late.failures] == ["consume"] * 2 + ["dead_letter"] * 3
    never = run(None)
    assert (never.dead, never.unmarked) == ([], [0])
    assert isinstance(never.errors[-1], grete.DeadLetterError)


def test_a_handlers_own_records_in_the_dead_letter_topic_are_produced_records() -> None:
    class Sorts(grete.Consumer):
        def consume(self) -> None:
            self.producer.produce("dlq", b"own")

    run = testing.consume(Sorts, "in", [b"1"], dead_letter="dlq")
    assert (run.dead, run.produced["dlq"].values()) == ([], [b"own"])


def test_producers_keep_their_checks() -> None:
    class Wrong(grete.Consumer):
        def consume(self) -> None:
            self.producer.produce("out", "text")  # type: ignore[call-overload]

    run = testing.consume(Wrong, "in", [b"1"], retry=grete.Retry(1))
    with pytest.raises(grete.RecordTypeError, match="encode"):
        run.raise_first()

    class Large(grete.Consumer):
        def consume(self) -> None:
            self.producer.produce("out", bytes(3 << 20))

    run = testing.consume(Large, "in", [b"1"], retry=grete.Retry(1))
    assert isinstance(run.errors[0], grete.RecordTooLargeError)


def test_payloads_of_produced_records_need_a_type() -> None:
    run = testing.consume(Forwards, "in", [b'{"a": 1}', None])
    assert run.produced["out"].payloads("json") == [{"a": 1}, None]
    with pytest.raises(TypeError, match="payloads needs a type"):
        run.produced["out"].payloads(None)
