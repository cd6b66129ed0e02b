"""Retries, dead letters, concurrency, revocation, stops and styles of handlers against each other, on a real broker.

Nothing is lost, order is kept, attempts are as configured, dead letters are complete, and a replay brings them back.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import pytest

import grete
from tests.integration import journal as plan
from tests.integration.app_in_process import dead_letters, header, make, until_done
from tests.integration.commands import grete as grete_command
from tests.integration.journal import Journal, rejection
from tests.integration.producers import producer
from tests.kafka import KafkaCluster, eventually

pytestmark = pytest.mark.kafka

ATTEMPTS = 3
RETRY = grete.Retry(attempts=ATTEMPTS, backoff="5ms..20ms", never=plan.NeverRetriedError)
QUICK = {"heartbeat.interval.ms": 150, "session.timeout.ms": 6000}


@dataclass(frozen=True)
class Case:
    """One combination."""

    concurrency: str
    style: str
    moves: str
    dead_letter: bool = True
    offset_map: bool = False
    max_messages: int = 500

    @property
    def marks_each(self) -> bool:
        """Each record is marked by itself: none is repeated because of another, and each has its own attempts."""
        return self.style not in ("rows", "columns", "async rows")

    @property
    def repeats_nothing(self) -> bool:
        """Across clean moves: nothing is done behind a record that is not, or it is noted beside the commit."""
        return self.offset_map or self.lives == 1 or (self.concurrency == "partition" and "rows" not in self.style)

    @property
    def lives(self) -> int:
        """How often a partition may be assigned: at the start, by each join and each leave, by the second start."""
        return 1 + 2 * ("join" in self.moves) + ("stop" in self.moves)

    @property
    def unit(self) -> Callable[[int], object] | None:
        """Within what the order is kept."""
        return {"partition": plan.partition_of, "key": plan.key_of, "unordered": None}[self.concurrency]

    def __str__(self) -> str:
        extras = ["" if self.dead_letter else "no dlq", "map" if self.offset_map else ""]
        return "-".join(filter(None, [self.concurrency, self.style, self.moves, *extras])).replace(" ", "_")


CASES = [
    Case("partition", "class", "join stop"),
    Case("partition", "rows", "join", max_messages=7),
    Case("partition", "columns", "join stop"),
    Case("partition", "message", "stop"),
    Case("partition", "payload", "join"),
    Case("partition", "async rows", "join stop"),
    Case("partition", "async message", "calm"),
    Case("partition", "columns", "stop", dead_letter=False, max_messages=9),
    Case("partition", "manual", "join stop"),
    Case("key", "class", "join stop", max_messages=20),
    Case("key", "rows", "join stop"),
    Case("key", "columns", "join stop"),
    Case("key", "message", "join stop", offset_map=True),
    Case("key", "payload", "stop"),
    Case("key", "async message", "join stop"),
    Case("key", "message", "join", dead_letter=False),
    Case("key", "manual", "join stop", max_messages=20),
    Case("unordered", "rows", "join stop"),
    Case("unordered", "columns", "join", max_messages=16),
    Case("unordered", "async payload", "join stop", offset_map=True),
    Case("unordered", "message", "stop", dead_letter=False),
]


def by_class(journal: Journal, member: str) -> type[grete.Consumer]:
    class Marking(grete.Consumer):
        def consume(self) -> None:
            for message in self.messages:
                journal.process(member, [plan.index_of(message.value)], rejection(message))
                self.mark(message)

    return Marking


def by_manual_marks(journal: Journal, member: str) -> type[grete.Consumer]:
    """Marks what it has processed in one of the next calls, of whatever hook, or on its way out."""

    class Later(grete.Consumer):
        def initialize(self) -> None:
            self.open: list[grete.Message] = []

        def consume(self) -> None:
            earlier, self.open = self.open, []
            for message in earlier:
                self.mark(message)
            try:
                for message in self.messages:
                    journal.process(member, [plan.index_of(message.value)], rejection(message))
                    self.open.append(message)
            except Exception:
                self.mark_open()  # or these would come again
                raise

        def mark_open(self) -> None:
            earlier, self.open = self.open, []
            for message in earlier:
                self.mark(message)

        tick = revoked = shutdown = mark_open

    return Later


def handler(style: str, journal: Journal, member: str) -> Any:
    """A handler of that style which processes as the journal says."""

    def rows(messages: grete.Messages) -> None:
        for message in messages:
            journal.process(member, [plan.index_of(message.value)], rejection(message))

    def columns(messages: grete.Messages) -> None:
        journal.process(member, [plan.index_of(value) for value in messages.values()], rejection())

    def one(message: grete.Message) -> None:
        journal.process(member, [plan.index_of(message.value)], rejection())

    def payload(value: dict) -> None:  # type: ignore[type-arg]
        journal.process(member, [value["index"]], rejection())

    async def rows_async(messages: grete.Messages) -> None:
        for message in messages:
            await asyncio.sleep(0)
            journal.process(member, [plan.index_of(message.value)], rejection(message))

    async def one_async(message: grete.Message) -> None:
        await asyncio.sleep(0)
        one(message)

    async def payload_async(value: dict) -> None:  # type: ignore[type-arg]
        await asyncio.sleep(0)
        payload(value)

    if style in ("class", "manual"):
        return (by_class if style == "class" else by_manual_marks)(journal, member)
    functions = {
        "rows": rows,
        "columns": columns,
        "message": one,
        "payload": payload,
        "async rows": rows_async,
        "async message": one_async,
        "async payload": payload_async,
    }
    return functions[style]


class Feed:
    """Writes the records, 0, 1, 2 ..., as many as are asked for."""

    def __init__(self, kafka: KafkaCluster, topic: str) -> None:
        self.count = 0
        self._topic = topic
        self._producer = producer(kafka.bootstrap_servers, linger_ms=0)

    def more(self, count: int) -> None:
        rows = [
            self._producer.produce(
                self._topic,
                plan.value_of(index),
                key=plan.key_of(index),
                headers=plan.headers_of(index),
                partition=plan.partition_of(index),
                timestamp=plan.FIRST_TIMESTAMP + index,
            )
            for index in range(self.count, self.count + count)
        ]
        for row in rows:
            row.wait(30)
        self.count += count

    def again(self, dead: list[grete.Message]) -> None:
        """Dead letters go back to where they came from, without what was added to them."""
        for message in dead:
            headers = [(name, value) for name, value in message.headers if not name.startswith("grete.")]
            self._producer.produce(self._topic, message.value, key=message.key, headers=headers).wait(30)

    def close(self) -> None:
        self._producer.close()


class Members:
    """The Apps of one group."""

    def __init__(self, kafka: KafkaCluster, group: str, topic: str, dlq: str, case: Case, journal: Journal) -> None:
        self._kafka, self._group, self._topic, self._dlq = kafka, group, topic, dlq
        self._case, self._journal = case, journal
        self.apps: dict[str, grete.App] = {}

    def start(self, name: str) -> None:
        case = self._case
        app = make(self._kafka, self._group, workers=4, tuning=QUICK)
        settings: dict[str, Any] = {"concurrency": case.concurrency, "max_messages": case.max_messages, "retry": RETRY}
        if case.dead_letter:
            settings["dead_letter"] = self._dlq
        if case.offset_map:
            settings["offset_map"] = True
        if "payload" in case.style:
            settings["payload"] = "json"
        if case.style == "manual":
            settings |= {"offsets": "manual", "tick": "20ms"}
        app.consumer(self._topic, **settings)(handler(case.style, self._journal, name))
        app.start()
        self.apps[name] = app

    def stop(self, name: str) -> None:
        """Cleanly, or it fails."""
        app = self.apps.pop(name)
        assert app.error is None
        app.stop()

    def works(self, name: str, count: int, feed: Feed) -> None:
        """Wait until that member has processed so many records; there are always more for it."""

        def check() -> bool:
            assert self.apps[name].error is None
            if self._journal.members()[name] >= count:
                return True
            feed.more(8)
            return False

        def state() -> str:
            return f"{count} records by {name}: {self._journal.members()}, {self.apps[name].statistics()}"

        eventually(check, 60.0, state)

    def done(self) -> None:
        until_done(self._kafka, next(iter(self.apps.values())), self._topic)

    def close(self) -> None:
        for app in self.apps.values():
            app.stop()


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@pytest.mark.parametrize("case", CASES, ids=str)
def test_nothing_is_lost_or_out_of_order(
    kafka: KafkaCluster, topic: str, group: str, case: Case, stack: ExitStack
) -> None:
    dlq = f"{topic}.dlq"
    kafka.create_topic(topic, partitions=plan.PARTITIONS)
    kafka.create_topic(dlq)
    journal = Journal(heals_after=None if case.dead_letter else ATTEMPTS + 2)
    feed = Feed(kafka, topic)
    stack.callback(feed.close)
    members = Members(kafka, group, topic, dlq, case, journal)
    stack.callback(members.close)

    feed.more(160)
    members.start("a")
    members.works("a", 20, feed)
    if "join" in case.moves:
        members.start("b")
        members.works("b", 20, feed)
        feed.more(80)
        members.stop("b")
    if "stop" in case.moves:
        feed.more(80)
        members.stop("a")
        members.start("c")
    feed.more(80)
    members.done()

    until = len(journal.notes)
    dead = dead_letters(kafka, dlq) if case.dead_letter else []
    judge(case, journal, feed.count, dead, topic, group, until)
    if dead:
        now = journal.heal()
        if case.style in ("class", "columns", "payload"):
            replayed = grete_command(kafka, "dlq", "replay", dlq, "--yes")
            assert replayed.status == 0, replayed.err
        else:
            feed.again(dead)
        members.done()
        again = {plan.index_of(message.value) for message in dead}
        assert set(journal.succeeded(now)) == again, "the replay brings back what was dead, and nothing else"
    for name in list(members.apps):
        members.stop(name)


def judge(
    case: Case, journal: Journal, count: int, dead: list[grete.Message], topic: str, group: str, until: int
) -> None:
    processed = journal.succeeded()
    buried = [plan.index_of(message.value) for message in dead]
    assert sorted(set(processed) | set(buried)) == list(range(count)), "nothing is lost"
    both = {index for index in set(processed) & set(buried) if plan.kind_of(index) != "flaky"}
    assert not both, "what is dead was never processed"
    if case.repeats_nothing or case.marks_each:
        # Records that share their attempts: a flaky one that was processed may come again after a move whose commit did
        # not arrive, and then be taken for bad with its neighbours.
        assert not set(processed) & set(buried)
    times = max(Counter(buried).values(), default=1), max(processed.values())
    if case.repeats_nothing:
        # Of rows that are marked together some may have been processed before the one that failed.
        assert times[0] == 1, "no record is dead twice"
        assert times[1] == 1 or "rows" in case.style, "no record was processed twice"
    else:
        # What was done behind a record that was still being retried comes again with it, at most once for each move.
        assert times[0] <= case.lives
        assert times[1] <= case.lives or "rows" in case.style
    if case.unit is not None:
        least = ATTEMPTS if case.marks_each else 1
        journal.assert_in_order(case.unit, until, None if case.repeats_nothing else least)
        journal.assert_one_at_a_time(case.unit, until)
    if case.dead_letter:
        hopeless = {index for index in range(count) if plan.kind_of(index) not in ("good", "flaky")}
        assert hopeless <= set(buried)
        # Records that are marked together share their attempts: there, one that fails at first may be taken for bad.
        assert all(plan.kind_of(index) == "flaky" and not case.marks_each for index in set(buried) - hopeless)
    for index, failures in journal.failures.items():
        check_attempts(case, index, failures)
    for message in dead:
        check_dead_letter(case, message, topic, group)


def check_attempts(case: Case, index: int, failures: int) -> None:
    """How often a record failed; each assignment of its partition counts anew."""
    if not case.marks_each:
        return
    kind = plan.kind_of(index)
    if kind == "flaky":
        assert failures == plan.FLAKY_TIMES
    elif not case.dead_letter:
        assert failures == ATTEMPTS + 2, f"record {index}: nothing is skipped without a dead letter topic"
    else:
        most = ATTEMPTS if kind == "poison" else 1
        assert most <= failures <= most * case.lives, f"record {index}, {kind}, has failed {failures} times"


def check_dead_letter(case: Case, message: grete.Message, topic: str, group: str) -> None:
    index = plan.index_of(message.value)
    kind = plan.kind_of(index)
    assert message.value == plan.value_of(index)
    assert message.key == plan.key_of(index)
    assert message.timestamp == plan.FIRST_TIMESTAMP + index
    own = plan.headers_of(index)
    assert list(message.headers[: len(own)]) == own
    names = ["source.topic", "source.partition", "source.offset", "source.group"]
    names += ["attempts", "error.class", "error.message", "failed.first", "failed.last"]
    assert [name for name, _ in message.headers[len(own) :]] == [f"grete.{name}" for name in names]
    assert header(message, "grete.source.topic") == topic
    assert header(message, "grete.source.partition") == str(plan.partition_of(index))
    assert header(message, "grete.source.offset") == str(index // plan.PARTITIONS)
    assert header(message, "grete.source.group") == group
    assert header(message, "grete.failed.first") <= header(message, "grete.failed.last")
    attempts = int(header(message, "grete.attempts"))
    wanted = ATTEMPTS if kind == "poison" else 1
    if case.marks_each:
        assert attempts == wanted, f"record {index}, {kind}"
        error = {"rejected": "grete.errors.Reject", "never": f"{plan.__name__}.NeverRetriedError"}
        assert header(message, "grete.error.class") == error.get(kind, "ValueError")
        assert f"record {index} " in header(message, "grete.error.message") + " "
    else:
        assert attempts >= 1
