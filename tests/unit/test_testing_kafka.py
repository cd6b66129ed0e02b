"""Apps on embedded brokers: `settle`, members of one group, crashes, faults, and explored schedules."""

from __future__ import annotations

import asyncio
import signal
import threading
import time
from collections.abc import Iterator

import pytest

import grete
from grete import testing
from grete.testing._kafka.choice import Choice
from grete.testing._kafka.embedded import EmbeddedCluster
from grete.testing._kafka.schedule import FaultSchedule
from tests.kafka.waiting import eventually


@pytest.fixture
def brokers() -> Iterator[testing.Kafka]:
    with Choice("embedded").open({}, 1) as kafka:
        yield kafka


def make(seen: list[bytes | None], name: str = "shop", topic: str = "orders", **settings: object) -> grete.App:
    app = grete.App(name)

    @app.consumer(topic, **settings)  # type: ignore[arg-type]
    def handle(message: grete.Message) -> None:
        seen.append(message.value)

    return app


def test_settle_waits_for_a_handler_that_runs(brokers: testing.Kafka) -> None:
    running, release = threading.Event(), threading.Event()
    app = grete.App("slow")

    @app.consumer("orders")
    def handle(message: grete.Message) -> None:
        running.set()
        assert release.wait(30)

    with brokers.run(app) as t:
        brokers.produce("orders", b"1")
        assert running.wait(30)
        try:
            with pytest.raises(
                grete.TimeoutError, match=r"orders\[0\] is running at offset \d of 1, .*handle runs for"
            ):
                t.settle(0.05)
        finally:
            release.set()
        t.settle()
        assert brokers.committed("orders") == {0: 1}


def test_settle_says_when_a_handler_has_returned_and_its_records_are_not_written(brokers: testing.Kafka) -> None:
    app, called = grete.App("slow"), threading.Event()

    @app.consumer("orders", publish="invoices")
    def charge(message: grete.Message) -> bytes:
        called.set()
        return b"1"

    brokers.fail("Produce", error="NOT_LEADER_OR_FOLLOWER")
    with brokers.run(app) as t:
        brokers.produce("orders", b"1")
        assert called.wait(30)
        said = r"charge has returned and waits for the delivery of 1 record that it produced$"
        try:
            with pytest.raises(grete.TimeoutError, match=said) as info:
                t.settle(1.0)
            assert "runs for" not in str(info.value)
        finally:
            brokers.heal()
        t.settle(60)


def test_settle_without_records_returns_at_once(brokers: testing.Kafka) -> None:
    with brokers.run(make([])) as t:
        t.settle(0.0)


def test_records_before_the_start_are_processed(brokers: testing.Kafka) -> None:
    seen: list[bytes | None] = []
    written = brokers.produce("orders", b"1", testing.Record(b"2", key="k", headers={"a": "b"}))
    assert [(record.partition, record.offset) for record in written] == [(0, 0), (0, 1)]
    with brokers.run(make(seen)) as t:
        t.settle()
    assert seen == [b"1", b"2"]
    assert brokers.produced("orders")[1].headers == (("a", b"b"),)


def test_members_of_one_group_share_the_partitions(brokers: testing.Kafka) -> None:
    first: list[bytes | None] = []
    second: list[bytes | None] = []
    brokers.create_topic("orders", 4)
    with brokers.run(make(first)), brokers.run(make(second)):
        for partition in range(4):
            brokers.produce("orders", b"%d" % partition, partition=partition)
        brokers.settle()
        assert sorted(first + second) == [b"0", b"1", b"2", b"3"]  # type: ignore[type-var]
        assert brokers.committed("orders") == dict.fromkeys(range(4), 1)


def test_settle_waits_for_partitions_that_a_member_has_left(brokers: testing.Kafka) -> None:
    first: list[bytes | None] = []
    second: list[bytes | None] = []
    brokers.create_topic("orders", 4)
    with brokers.run(make(first)) as gone, brokers.run(make(second)) as t:
        brokers.settle()
        gone.stop()
        for partition in range(4):
            brokers.produce("orders", b"%d" % partition, partition=partition)
        t.settle()
        assert sorted(second) == [b"0", b"1", b"2", b"3"]  # type: ignore[type-var]
        assert brokers.committed("orders") == dict.fromkeys(range(4), 1)


def test_settle_leaves_partitions_of_a_stranger_alone(brokers: testing.Kafka) -> None:
    seen: list[bytes | None] = []
    brokers.create_topic("orders", 4)
    app = make(seen)
    servers = {"bootstrap.servers": brokers.bootstrap_servers, "group.id": app.name}
    with brokers.run(app) as t, grete.client.Consumer(servers) as stranger:
        stranger.subscribe(["orders"])
        while len(stranger.assignment()) != 2:
            stranger.poll(0.1)
        for partition in range(4):
            brokers.produce("orders", b"%d" % partition, partition=partition)
        t.settle()
        assert len(seen) == 2


def queue(seen: list[bytes | None], name: str = "shop", dead_letter: str | None = None) -> grete.App:
    app = grete.App(name, group="tasks", workers=2)

    @app.consumer("orders", queue=True, dead_letter=dead_letter, retry=grete.Retry(attempts=1))  # type: ignore[arg-type]
    def work(message: grete.Message) -> None:
        seen.append(message.value)
        if message.value == b"bad":
            raise ValueError

    return app


def waiting(brokers: testing.Kafka) -> list[int | None]:
    with grete.client.Admin({"bootstrap.servers": brokers.bootstrap_servers}) as admin:
        return [lag.lag for lag in admin.lag("tasks").values()]


def test_settle_waits_for_all_members_of_a_queue_and_their_acknowledgements(brokers: testing.Kafka) -> None:
    first: list[bytes | None] = []
    second: list[bytes | None] = []
    with brokers.run(queue(first, "one")) as one, brokers.run(queue(second, "two")):
        for number in range(5):
            brokers.produce("orders", *(b"%d" % value for value in range(number * 4, number * 4 + 4)))
            if number % 2:
                one.settle()
            else:
                brokers.settle()
            assert len(first + second) == number * 4 + 4
            assert waiting(brokers) == [0]


def test_settle_waits_for_dead_letters_of_a_queue(brokers: testing.Kafka) -> None:
    seen: list[bytes | None] = []
    with brokers.run(queue(seen, dead_letter="dead")) as t:
        brokers.produce("orders", b"1", b"bad", b"2")
        t.settle()
        assert waiting(brokers) == [0]
        assert len(brokers.dead_letters("dead")) == 1


def test_topics_that_match_a_pattern(brokers: testing.Kafka) -> None:
    app, seen = grete.App("shop"), []

    @app.consumer(r"^orders\..*", payload="json")
    def orders(order: dict[str, int], message: grete.Message) -> None:
        seen.append((message.topic, order["id"]))

    brokers.create_topic("orders.eu", 2)
    with brokers.run(app) as t:
        brokers.produce("orders.eu", b'{"id": 1}')
        t.settle()
        brokers.produce("orders.us", b'{"id": 2}')  # a new topic
        t.settle()
        assert seen == [("orders.eu", 1), ("orders.us", 2)]
        assert brokers.committed("orders.us") == {0: 1}
    testing.consume(app, "orders.zz", [b'{"id": 3}'])
    assert seen[-1] == ("orders.zz", 3)


def matching(seen: list[bytes | None], pattern: str, queue: bool = False) -> grete.App:
    app = grete.App("shop", group="readers")

    @app.consumer(pattern, queue=queue)
    def read(message: grete.Message) -> None:
        seen.append(message.value)

    return app


@pytest.mark.parametrize("queue", [False, True])
def test_settle_waits_for_the_first_topic_of_a_pattern_and_for_later_ones(brokers: testing.Kafka, queue: bool) -> None:
    seen: list[bytes | None] = []
    with grete.client.Admin({"bootstrap.servers": brokers.bootstrap_servers}) as admin:
        admin.alter_configs("group", "readers", {"share.auto.offset.reset": "earliest"})
    with brokers.run(matching(seen, "^orders.*", queue)) as t:
        for number in range(3):
            brokers.create_topic(f"orders.{number}", 2)
            brokers.produce(f"orders.{number}", b"%d" % number, partition=number % 2)
            t.settle()
            assert len(seen) == number + 1


def test_settle_waits_for_partitions_that_are_added(brokers: testing.Kafka) -> None:
    seen: list[bytes | None] = []
    brokers.create_topic("orders", 2)
    servers = {"bootstrap.servers": brokers.bootstrap_servers}
    with brokers.run(matching(seen, "orders")) as t, grete.client.Admin(servers) as admin:
        t.settle()
        admin.create_partitions("orders", 6)
        with grete.client.Producer(servers) as producer:
            for partition in range(6):
                producer.produce("orders", b"v", partition=partition)
        t.settle()
        assert len(seen) == 6


def test_a_deleted_topic_of_a_pattern_stays_away(brokers: testing.Kafka) -> None:
    seen: list[bytes | None] = []
    brokers.create_topic("orders.gone", 1)
    with brokers.run(matching(seen, "^orders.*")) as t:
        brokers.produce("orders.gone", b"1")
        t.settle()
        brokers.broker.delete_topic("orders.gone")
        eventually(lambda: not t.app.statistics()["lanes"], 30.0, "the topic is gone")
        assert brokers.topics() == {}
        brokers.create_topic("orders.gone", 3)
        brokers.produce("orders.gone", b"2")
        t.settle()
        assert seen == [b"1", b"2"]


def test_an_app_runs_once_at_a_time(brokers: testing.Kafka) -> None:
    app = make([])
    with brokers.run(app) as t:
        with pytest.raises(grete.GreteError, match="runs already"), brokers.run(app):
            pass
        t.settle()


def test_manual_offsets_that_are_not_marked_remain(brokers: testing.Kafka) -> None:
    seen: list[bytes | None] = []
    app = grete.App("manual")

    @app.consumer("orders", offsets="manual")
    class Orders(grete.Consumer):
        def consume(self) -> None:
            seen.extend(self.messages.values())

    with brokers.run(app) as t:
        brokers.produce("orders", b"1")
        t.settle()
    assert (seen, brokers.committed("orders")) == ([b"1"], {})


def test_a_virtual_clock_ends_backoffs_of_keys(brokers: testing.Kafka) -> None:
    runs: list[object] = []
    app = grete.App("keys")

    @app.consumer("orders", concurrency="key", retry=grete.Retry(attempts=4, backoff="1h..1h"), dead_letter="dead")
    def handle(message: grete.Message) -> None:
        runs.append(message.key)
        if message.key == b"bad":
            raise ValueError("bad")

    with brokers.run(app, clock="virtual") as t:
        for key in ("a", "bad", "b"):
            brokers.produce("orders", b"", key=key)
        t.settle()
    assert sorted(runs) == [b"a", b"b", *[b"bad"] * 4]  # type: ignore[type-var]
    assert [(dead.offset, dead.attempts, dead.error) for dead in brokers.dead_letters("dead")] == [(1, 4, "ValueError")]


def test_a_refused_commit_is_repeated(brokers: testing.Kafka) -> None:
    with brokers.run(make([])) as t:
        brokers.produce("orders", b"1")
        brokers.fail("OffsetCommit", error="REBALANCE_IN_PROGRESS", times=1)
        t.settle()
        assert brokers.committed("orders") == {0: 1}


def test_faults_pass_by_the_tests_own_records(brokers: testing.Kafka) -> None:
    brokers.disconnect("Produce")
    assert [record.offset for record in brokers.produce("orders", b"1", b"2")] == [0, 1]
    brokers.heal()


def test_a_crash_runs_no_hook_and_commits_nothing(brokers: testing.Kafka) -> None:
    ends: list[str] = []
    app = grete.App("hooks")

    @app.consumer("orders")
    class Orders(grete.Consumer):
        def consume(self) -> None:
            self.messages.values()

        def shutdown(self) -> None:
            ends.append("shutdown")

        def revoked(self) -> None:
            ends.append("revoked")

    with brokers.run(app) as t:
        brokers.produce("orders", b"1")
        t.settle()
        with brokers.crash(t):
            brokers.produce("orders", b"2")
            t.settle()
        assert not t.is_running
        assert (ends, brokers.committed("orders")) == ([], {0: 1})
        assert brokers.broker.members("hooks") == []
    with brokers.run(app) as t:
        t.settle()
    assert (brokers.runs("orders", 0), brokers.runs("orders", 1)) == (1, 2)


def test_a_rebalance_and_an_expired_session(brokers: testing.Kafka) -> None:
    seen: list[bytes | None] = []
    with brokers.run(make(seen)) as t:
        for number in range(6):
            brokers.produce("orders", b"%d" % number)
            brokers.rebalance("shop") if number % 2 else brokers.expire_session(t)
            t.settle()
    assert {*seen} == {b"%d" % number for number in range(6)}
    assert brokers.committed("orders") == {0: 6}


def test_async_handlers_run_on_the_loop_of_the_test(brokers: testing.Kafka) -> None:
    async def main() -> None:
        queue: asyncio.Queue[bytes | None] = asyncio.Queue()
        app = grete.App("async")

        @app.consumer("orders")
        async def handle(message: grete.Message) -> None:
            await queue.put(message.value)

        async with brokers.run(app) as t:
            await asyncio.to_thread(brokers.produce, "orders", b"1")
            await t.settled()
            assert queue.get_nowait() == b"1"

    asyncio.run(main())


@pytest.mark.parametrize(
    ("settings", "protocol"),
    [
        ({}, "consumer"),
        ({"group.protocol": "consumer"}, "consumer"),
        ({"group.protocol": "classic"}, "classic"),
        ({"session.timeout.ms": 6000}, "classic"),
        ({"session.timeout.ms": 6000, "group.remote.assignor": "range"}, "consumer"),
    ],
)
def test_two_apps_of_a_group_share_its_partitions_soon_in_either_protocol(
    brokers: testing.Kafka, settings: dict[str, object], protocol: str
) -> None:
    seen: list[bytes | None] = []
    apps = [grete.App("shop", kafka=settings) for _ in range(2)]
    for app in apps:

        @app.consumer("orders")
        def handle(message: grete.Message) -> None:
            seen.append(message.value)

    brokers.create_topics({"orders": 2})
    with brokers.run(apps[0]) as first, brokers.run(apps[1]) as second:
        eventually(lambda: [len(t.app.statistics()["lanes"]) for t in (first, second)] == [1, 1], 30.0, "a share each")
        # Soon: a tenth of a second, of this setting or of the brokers.
        for t in (first, second):
            heartbeat = t.app.settings().kafka.get("heartbeat.interval.ms")
            assert (None if heartbeat is None else str(heartbeat.value)) == ("100" if protocol == "classic" else None)
        with grete.client.Admin({"bootstrap.servers": brokers.bootstrap_servers}) as admin:
            assert admin.describe_group("shop").protocol == protocol
        brokers.produce("orders", b"1", partition=0)
        brokers.produce("orders", b"2", partition=1)
        brokers.settle()
    assert sorted(seen, key=str) == [b"1", b"2"]


def test_a_schedule_depends_on_its_seed_alone() -> None:
    assert str(FaultSchedule(3, 5)) == str(FaultSchedule(3, 5)) != str(FaultSchedule(4, 5))


def test_explore_names_the_smallest_seed_that_fails_and_its_faults() -> None:
    def scenario(kafka: testing.Kafka) -> None:
        with kafka.run(make([])) as t:
            kafka.produce("orders", b"1")
            t.settle(30)
        assert kafka.committed("orders") == {0: 1}

    testing.explore(scenario, seeds=3)

    def failing(kafka: testing.Kafka) -> None:
        raise AssertionError("no")

    with pytest.raises(AssertionError) as raised:
        testing.explore(failing, seeds=[7, 8])
    note = raised.value.__notes__[0]
    assert "smallest failing seed: 7" in note
    assert str(FaultSchedule(7, 5)) in note


@pytest.mark.parametrize("seeds", [0, -1, [], "3"])
def test_explore_needs_seeds(seeds: object) -> None:
    with pytest.raises(ValueError, match="a number of seeds from 1 on"):
        testing.explore(lambda kafka: None, seeds=seeds)  # type: ignore[arg-type]


def test_explore_refuses_a_coroutine_function_that_nothing_would_run() -> None:
    async def scenario(kafka: testing.Kafka) -> None:
        raise AssertionError("it runs")

    with pytest.raises(TypeError, match=r"asyncio\.run in it"):
        testing.explore(scenario, seeds=1)


def test_settle_on_the_event_loop_of_the_handlers_says_what_to_use(brokers: testing.Kafka) -> None:
    app = grete.App("async")

    @app.consumer("orders")
    async def handle(message: grete.Message) -> None:
        pass

    async def main() -> None:
        async with brokers.run(app) as t:
            brokers.produce("orders", b"1")
            for settle in (t.settle, brokers.settle):
                with pytest.raises(grete.GreteError, match=r"await t\.settled\(\)"):
                    settle()
            await t.settled("30s")

    asyncio.run(main())
    assert brokers.committed("orders") == {0: 1}


def test_a_block_that_ends_by_an_exception_does_not_wait_for_what_cannot_end(brokers: testing.Kafka) -> None:
    running, release = threading.Event(), threading.Event()
    app = grete.App("stuck")

    @app.consumer("orders")
    def handle(message: grete.Message) -> None:
        running.set()
        release.wait(60)

    try:
        brokers.produce("orders", b"1")
        begin = time.monotonic()
        with pytest.raises(ZeroDivisionError), brokers.run(app):
            1 / (0 if running.wait(30) else 1)
        assert time.monotonic() - begin < 20, "as long as shutdown_timeout"
    finally:
        release.set()


def test_a_crash_without_a_block_is_an_error() -> None:
    kafka = testing.Kafka(EmbeddedCluster())
    with kafka.run(make([])) as t:
        kafka.crash(t)
    with pytest.raises(grete.GreteError, match=r"`with kafka\.crash\(t\):`"):
        kafka.close()


def test_run_takes_an_app(brokers: testing.Kafka) -> None:
    with pytest.raises(TypeError, match="takes an App, as `from shop import app` gets it, not 'shop:app'"):
        brokers.run("shop:app")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ({"times": 0}, "times is a number of faults, from 1 on, not 0"),
        ({"times": -1}, "from 1 on, not -1"),
        ({"skip": "x"}, "skip is a number of requests that pass, from 0 on, not 'x'"),
        ({"partition": 2**40}, "partition is a number, from 0 on"),
        ({"broker": 7}, "there is no broker 7: they have the numbers 1 to 1"),
    ],
)
def test_conditions_that_never_match_are_refused(
    brokers: testing.Kafka, where: dict[str, object], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        brokers.fail("Produce", error="NOT_LEADER_OR_FOLLOWER", **where)


def test_ctrl_c_ends_a_settle_whose_commit_is_not_answered(brokers: testing.Kafka) -> None:
    brokers.drop("OffsetCommit")
    brokers.produce("orders", b"1")

    def interrupt() -> None:
        eventually(lambda: brokers.broker.requests("OffsetCommit"), 30, "a commit")
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    begin = time.monotonic()
    thread.start()
    with pytest.raises(KeyboardInterrupt), brokers.run(make([])) as t:
        t.settle(60)
    thread.join()
    assert time.monotonic() - begin < 25, "as long as the broker has for its answer"


def test_a_topic_that_exists_with_other_partitions_is_an_error(brokers: testing.Kafka) -> None:
    brokers.create_topic("orders", 2)
    brokers.create_topic("orders", 2)
    with pytest.raises(grete.GreteError, match='topic "orders" exists with 2 partitions, not 8'):
        brokers.create_topic("orders", 8)
