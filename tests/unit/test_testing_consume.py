"""grete.testing.consume: what handlers do with records, without a broker."""

import dataclasses
import gc
import logging
import time
from pathlib import Path
from typing import Any

import pytest

import grete
from grete import testing


@dataclasses.dataclass
class Order:
    id: int


app = grete.App("shop")


RETRY = grete.Retry(attempts=5, backoff="200ms..30s", on=(Exception, grete.DecodeError))


@app.consumer("orders", payload=Order, retry=RETRY, dead_letter="orders.dlq")
class Orders(grete.Consumer):
    def consume(self) -> None:
        for message in self.messages:
            self.producer.produce("invoices", b"%d" % message.payload.id, key=message.key)
            self.mark(message)


def test_an_app_processes_produces_and_gives_up_what_it_cannot_decode() -> None:
    run = testing.consume(app, "orders", [Order(1), b"not json", Order(3)], key="k")
    assert run.marked == [0, 2]
    assert (run.offsets, run.unmarked, run.committed) == ([0, 1, 2], [], 3)
    assert run.attempts == {0: 1, 1: 5, 2: 1}
    assert run.waited == pytest.approx(0.2 + 0.4 + 0.8 + 1.6)
    assert run.produced["invoices"].values() == [b"1", b"3"]
    assert run.produced["invoices"].keys() == [b"k", b"k"]
    assert run.produced["invoices"].payloads(int) == [1, 3]
    (dead,) = run.dead
    assert (dead.error, dead.error_class, dead.attempts) == ("DecodeError", "grete.errors.DecodeError", 5)
    assert (dead.topic, dead.partition, dead.offset, dead.group) == ("orders", 0, 1, "shop")
    assert (dead.value, dead.key) == (b"not json", b"k")
    assert ("grete.attempts", b"5") in dead.headers
    assert "does not decode" in dead.error_message
    assert [(failure.outcome, failure.attempt) for failure in run.failures] == [
        ("retry", 1),
        ("retry", 2),
        ("retry", 3),
        ("retry", 4),
        ("dead_letter", 5),
    ]
    assert [failure.wait for failure in run.failures[:4]] == pytest.approx([0.2, 0.4, 0.8, 1.6])
    assert "orders.dlq" not in run.produced


def test_the_times_in_a_dead_letter_are_virtual() -> None:
    begin = time.time()
    run = testing.consume(app, "orders", [b"?"])
    assert time.time() - begin < 1.0, "waits cost no time"
    headers: dict[str, Any] = dict(run.dead[0].headers)
    assert headers["grete.failed.first"] < headers["grete.failed.last"]


def test_runs_do_not_depend_on_each_other() -> None:
    first, second = (testing.consume(app, "orders", [Order(1), b"?"]) for _ in range(2))
    assert first.waited == second.waited
    assert first.produced["invoices"].values() == second.produced["invoices"].values() == [b"1"]
    assert first.produced["invoices"][0].offset == second.produced["invoices"][0].offset == 0
    assert first.consumer is not second.consumer


def test_a_class_needs_no_app() -> None:
    class Counts(grete.Consumer):
        total = 0

        def initialize(self) -> None:
            self.calls = ["initialize"]

        def consume(self) -> None:
            self.calls.append("consume")
            self.total += len(self.messages)

        def shutdown(self) -> None:
            self.calls.append("shutdown")

    run = testing.consume(Counts, "numbers", [b"1", b"2", b"3"], max_messages=2, partition=4, offset=17)
    assert (run.consumer.total, run.consumer.calls) == (3, ["initialize", "consume", "consume", "shutdown"])
    assert (run.consumer.topic, run.consumer.partition) == ("numbers", 4)
    assert (run.marked, run.committed) == ([17, 18, 19], 20)


def test_functions_of_each_kind() -> None:
    batches: list[int] = []
    keys: list[bytes | None] = []
    orders: list[Order] = []

    def batch(messages: grete.Messages) -> None:
        batches.append(len(messages))

    def one(message: grete.Message) -> None:
        keys.append(message.key)

    def payload(order: Order) -> None:
        orders.append(order)

    values = [Order(1), Order(2)]
    for function in (batch, one, payload):
        run = testing.consume(function, "orders", values, key=b"k")
        assert (run.marked, run.consumers, run.errors) == ([0, 1], [], [])
    assert (batches, keys, orders) == ([2], [b"k", b"k"], values)


def test_records_before_a_failing_one_are_not_repeated_by_a_function() -> None:
    def charge(order: Order) -> None:
        if order.id == 2:
            raise ValueError("no")

    run = testing.consume(charge, "orders", [Order(1), Order(2), Order(3)], dead_letter="dlq", retry=grete.Retry(2))
    assert (run.marked, [dead.offset for dead in run.dead], run.attempts) == ([0, 2], [1], {0: 1, 1: 2, 2: 1})


def test_a_batch_that_marks_nothing_is_repeated_as_a_whole_and_bisected() -> None:
    def batch(messages: grete.Messages) -> None:
        if b"bad" in messages.values():
            raise ValueError("bad")

    run = testing.consume(batch, "orders", [b"a", b"bad", b"c", b"d"], dead_letter="dlq", retry=grete.Retry(2))
    assert (run.marked, [dead.offset for dead in run.dead]) == ([0, 2, 3], [1])
    assert run.attempts[0] > 1
    assert "bisect" in [failure.outcome for failure in run.failures]


def test_without_dead_letter_topic_a_failing_record_stays() -> None:
    def fail(message: grete.Message) -> None:
        if message.value == b"bad":
            raise ValueError("bad")

    run = testing.consume(fail, "orders", [b"good", b"bad", b"behind"], retry=grete.Retry(attempts=3, backoff="1s"))
    assert (run.marked, run.unmarked, run.committed) == ([0], [1, 2], 1)
    assert run.attempts == {0: 1, 1: 3}
    assert run.waited == pytest.approx(2.0)


def test_endless_retries_end_at_the_time_limit() -> None:
    def fail(message: grete.Message) -> None:
        raise ValueError("no")

    run = testing.consume(fail, "orders", [b"1"], retry=grete.Retry(attempts=None, backoff="10s"), time_limit=60.0)
    assert (run.marked, run.waited, run.attempts) == ([], 60.0, {0: 7})


def test_an_endless_run_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("grete.testing._driver._MAX_JOBS", 1000)

    class Rewinds(grete.Consumer):
        def consume(self) -> None:
            self.seek("earliest")

    with pytest.raises(grete.GreteError, match="did not end within"):
        testing.consume(Rewinds, "orders", [b"1"])


def test_errors_that_are_not_retried() -> None:
    def fail(message: grete.Message) -> None:
        if message.value == b"later" and message.timestamp not in seen:
            seen.add(message.timestamp)
            raise grete.RetryLater(90)
        if message.value == b"reject":
            raise grete.Reject("no such account")
        if message.value == b"key":
            raise KeyError("k")

    seen: set[int] = set()
    retry = grete.Retry(attempts=4, never=KeyError)
    run = testing.consume(fail, "orders", [b"later", b"reject", b"key"], retry=retry, dead_letter="dlq")
    assert run.attempts == {0: 2, 1: 1, 2: 1}
    assert run.waited == pytest.approx(90.0)
    assert [(dead.offset, dead.error, dead.attempts) for dead in run.dead] == [(1, "Reject", 1), (2, "KeyError", 1)]
    assert [failure.outcome for failure in run.failures] == ["later", "dead_letter", "dead_letter"]


def test_the_handlers_traceback_is_raised() -> None:
    def fail(message: grete.Message) -> None:
        raise ValueError("of the handler")

    run = testing.consume(fail, "orders", [b"1"], retry=grete.Retry(1), dead_letter="dlq")
    with pytest.raises(ValueError, match="of the handler") as raised:
        run.raise_first()
    names = [entry.name for entry in raised.traceback]
    assert names[-1] == "fail"
    assert not {"run_in_worker", "_run_ready", "_consume"} & set(names)
    testing.consume(lambda messages: None, "orders", [b"1"]).raise_first()


def test_a_failing_initialize_costs_no_attempt() -> None:
    class Starts(grete.Consumer):
        tries = 0

        def initialize(self) -> None:
            Starts.tries += 1
            if Starts.tries < 3:
                raise ConnectionError("not yet")

        def consume(self) -> None:
            pass

    run = testing.consume(Starts, "orders", [b"1"], retry=grete.Retry(attempts=1), dead_letter="dlq")
    assert (run.marked, run.attempts, run.dead) == ([0], {0: 1}, [])
    assert [(failure.hook, failure.outcome) for failure in run.failures] == [("initialize", "later")] * 2
    assert run.waited > 0.2


def test_manual_offsets() -> None:
    class Marks(grete.Consumer):
        def consume(self) -> None:
            self.mark(self.messages[0])
            self.mark(self.messages[2])

        def shutdown(self) -> None:
            self.mark(self.last)

        def initialize(self) -> None:
            self.last = testing.message(topic="orders", offset=4)

    run = testing.consume(Marks, "orders", [b"0", b"1", b"2", b"3", b"4"], offsets="manual")
    assert (run.marked, run.unmarked, run.committed) == ([0, 2, 4], [1, 3], 1)


def test_at_most_once() -> None:
    def fail(message: grete.Message) -> None:
        raise ValueError("no")

    run = testing.consume(fail, "orders", [b"1", b"2"], offsets="at_most_once", max_messages=1)
    assert (run.attempts, run.committed) == ({0: 1, 1: 1}, 2)
    assert [failure.outcome for failure in run.failures] == ["skipped", "skipped"]


def test_synchronous_marks_commit() -> None:
    class Marks(grete.Consumer):
        def consume(self) -> None:
            self.producer.produce("out", b"1")
            assert self.mark(self.messages, sync=True) == 2

    run = testing.consume(Marks, "orders", [b"1", b"2"])
    run.raise_first()
    assert (run.marked, run.produced["out"].values()) == ([0, 1], [b"1"])


def test_keys_run_in_slots_of_their_own() -> None:
    class Keyed(grete.Consumer):
        def consume(self) -> None:
            for message in self.messages:
                if message.key == b"bad":
                    raise ValueError("bad")
                self.mark(message)

    records = [testing.Record(b"%d" % at, key=key) for at, key in enumerate(["a", "bad", "b", "bad", "a"])]
    run = testing.consume(
        Keyed, "orders", records, concurrency="key", retry=grete.Retry(attempts=3), dead_letter="orders.dlq"
    )
    assert (run.marked, [dead.offset for dead in run.dead], run.committed) == ([0, 2, 4], [1, 3], 5)
    assert run.attempts[0] == run.attempts[2] == 1
    assert len(run.consumers) >= 2
    with pytest.raises(grete.GreteError, match=r"run\.consumers"):
        _ = run.consumer


def test_a_key_that_fails_holds_back_the_commit_but_no_other_key() -> None:
    def handle(message: grete.Message) -> None:
        if message.key == b"bad":
            raise ValueError("bad")

    records = [testing.Record(b"", key=key) for key in ["a", "bad", "b", "c"]]
    run = testing.consume(handle, "orders", records, concurrency="key", retry=grete.Retry(attempts=2))
    assert (run.marked, run.unmarked, run.committed) == ([0, 2, 3], [1], 1)


def test_unordered_records() -> None:
    def handle(message: grete.Message) -> None:
        if message.value == b"2":
            raise grete.Reject("two")

    run = testing.consume(
        handle, "orders", [b"%d" % at for at in range(20)], concurrency="unordered", dead_letter="dlq", max_messages=3
    )
    assert (len(run.marked), [dead.offset for dead in run.dead], run.committed) == (19, [2], 20)


def test_the_end_of_the_assignment() -> None:
    class Hooks(grete.Consumer):
        def initialize(self) -> None:
            self.calls: list[object] = []

        def consume(self) -> None:
            self.mark(self.messages[0])

        def revoked(self) -> None:
            self.calls.append(("revoked", self.lost))
            if not self.lost:
                self.mark(testing.message(topic="orders", offset=1))

        def shutdown(self) -> None:
            self.calls.append("shutdown")

    expected: dict[str, tuple[list[object], list[int], int | None]] = {
        "shutdown": (["shutdown"], [0], 1),
        "revoked": ([("revoked", False)], [0, 1], 2),
        "lost": ([("revoked", True)], [0], None),
    }
    for end, (calls, marked, committed) in expected.items():
        run = testing.consume(Hooks, "orders", [b"0", b"1"], offsets="manual", end=end)  # type: ignore[arg-type]
        run.raise_first()
        assert (run.consumer.calls, run.marked, run.committed) == (calls, marked, committed)


def test_a_failing_end_hook_is_a_failure() -> None:
    class Ends(grete.Consumer):
        def consume(self) -> None:
            pass

        def shutdown(self) -> None:
            raise ValueError("at the end")

    run = testing.consume(Ends, "orders", [b"1"])
    assert [(failure.hook, failure.outcome) for failure in run.failures] == [("shutdown", None)]
    assert run.marked == [0]


def test_eof_and_ticks() -> None:
    class Hooks(grete.Consumer):
        calls: list[str]

        def initialize(self) -> None:
            self.calls = []

        def consume(self) -> None:
            self.calls.append(f"consume {len(self.messages)}")

        def eof(self) -> None:
            self.calls.append("eof")

        def tick(self) -> None:
            self.calls.append("tick")

    run = testing.consume(Hooks, "orders", [b"1", b"2"], tick="5s", idle=16.0)
    assert run.consumer.calls == ["consume 2", "eof", "tick", "tick", "tick"]
    assert run.waited == 0.0
    assert testing.consume(Hooks, "orders", [b"1"], tick="5s").consumer.calls == ["consume 1", "eof"]


def test_delays_expiry_and_rate_limits_are_virtual() -> None:
    def handle(message: grete.Message) -> None:
        pass

    values = [b"%d" % at for at in range(30)]
    assert testing.consume(handle, "orders", values, delay="1h").waited == pytest.approx(3600.0, abs=0.002)
    limited = testing.consume(handle, "orders", values, rate_limit="10/s")
    assert limited.marked == list(range(30))
    assert limited.waited == pytest.approx(2.0, abs=0.2)
    old = testing.consume(handle, "orders", [testing.Record(b"", timestamp=1000), b"new"], max_age="1h")
    assert (old.marked, old.unmarked, old.committed, old.attempts) == ([1], [0], 2, {1: 1})


def test_pauses_are_virtual() -> None:
    class Pauses(grete.Consumer):
        def consume(self) -> None:
            if self.messages.first_offset == 0:
                self.pause(30.0)

    run = testing.consume(Pauses, "orders", [b"1", b"2"], max_messages=1)
    assert (run.marked, run.waited) == ([0, 1], 30.0)


def test_a_pause_without_end_ends_the_run() -> None:
    class Pauses(grete.Consumer):
        def consume(self) -> None:
            self.pause()

    run = testing.consume(Pauses, "orders", [b"1", b"2"], max_messages=1)
    assert (run.marked, run.unmarked) == ([0], [1])


def test_seeks() -> None:
    class Seeks(grete.Consumer):
        seeks: list[Any]

        def initialize(self) -> None:
            self.seen: list[int] = []
            self.seeks = [3, "earliest", "latest"]

        def consume(self) -> None:
            self.seen.append(self.messages.first_offset)
            if self.messages.first_offset in (1, 4) and self.seeks:
                self.seek(self.seeks.pop(0))

    run = testing.consume(Seeks, "orders", [b"%d" % at for at in range(6)], max_messages=1)
    assert run.consumer.seen == [0, 1, 3, 4, 0, 1]
    assert (run.unmarked, run.committed) == ([2, 5], 6)


def test_background_work_ends_with_the_run() -> None:
    class Works(grete.Consumer):
        def initialize(self) -> None:
            self.ended = False
            self.background(self.work)

        def work(self) -> None:
            self.stopping.wait(10.0)
            self.ended = self.stopping.is_set()

        def consume(self) -> None:
            pass

    assert testing.consume(Works, "orders", [b"1"]).consumer.ended


def test_no_records_run_no_handler() -> None:
    def handle(message: grete.Message) -> None:
        raise AssertionError("no records")

    run = testing.consume(handle, "orders", [])
    assert (run.marked, run.offsets, run.committed, run.failures) == ([], [], None, [])


def test_events_are_emitted() -> None:
    watched = grete.App("watched")
    seen: list[tuple[int, object]] = []

    @watched.consumer("orders")
    def handle(message: grete.Message) -> None:
        pass

    watched.monitor.subscribe("job.finished", lambda event: seen.append((event["records"], event["error"])))
    testing.consume(watched, "orders", [b"1", b"2"])
    assert seen == [(2, None)]


def test_preloads_run_once() -> None:
    loading = grete.App("loading")
    loads: list[int] = []

    @loading.preload
    def load() -> None:
        loads.append(1)

    @loading.consumer("orders")
    def handle(message: grete.Message) -> None:
        assert loads

    for _ in range(2):
        testing.consume(loading, "orders", [b"1"]).raise_first()
    assert loads == [1]


def test_a_handler_that_ends_the_process_ends_the_run() -> None:
    def leave(message: grete.Message) -> None:
        raise SystemExit(3)

    run = testing.consume(leave, "orders", [b"1", b"2"], max_messages=1)
    assert [failure.outcome for failure in run.failures] == ["fatal"]
    assert (run.marked, run.attempts) == ([], {0: 1})
    with pytest.raises(SystemExit):
        run.raise_first()


def test_an_interrupt_is_not_kept() -> None:
    def interrupt(message: grete.Message) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        testing.consume(interrupt, "orders", [b"1"])


@pytest.mark.own_process
def test_runs_leave_no_descriptors_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    # pytest keeps log lines, and with their tracebacks the consumers, until the test ends.
    monkeypatch.setattr(logging.getLogger("grete"), "disabled", True)

    def fail(message: grete.Message) -> None:
        raise ValueError("no")

    def descriptors() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    def once() -> None:
        testing.consume(app, "orders", [Order(1), b"?"])
        testing.consume(fail, "orders", [b"1"], retry=grete.Retry(1), dead_letter="dlq")

    once()
    gc.collect()
    gc.disable()
    try:
        before = descriptors()
        for _ in range(20):
            once()
        assert descriptors() == before
    finally:
        gc.enable()


def test_a_run_in_one_line() -> None:
    run = testing.consume(app, "orders", [Order(1), b"?"])
    assert repr(run).startswith("<Run orders[0] of 2 records: marked [0], dead [1], 1 to invoices, 5 failures, the ")
    assert "DecodeError" in repr(run)
