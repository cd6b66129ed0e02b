"""Groups of different clients, in rounds: each kind of member comes first once, one leaves, and one comes back.

`MIXED_ROUNDS`: rounds of each case; `MIXED_SEED`. In a round, nothing is lost, no partition has two owners at a time,
and no committed offset goes back.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path

import pytest

from tests.integration.app_process import AppRun
from tests.integration.continuous_producer import SteadyProducer
from tests.integration.foreign_members import AiokafkaMember, ConfluentMember, ForeignMember, History, JavaMember
from tests.integration.recorder_check import Ledger
from tests.integration.test_consumer_protocol import commits_never_go_back
from tests.integration.test_group import owned
from tests.kafka import KafkaCluster, eventually, fill

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(3600)]
ROUNDS = int(os.environ.get("MIXED_ROUNDS", "2"))
SEED = int(os.environ.get("MIXED_SEED", "0"))
RECORDER = "tests.integration.apps.recorder:app"
PARTITIONS = 12
RECORDS = 2400
# Records per second, while members come and go.
PACE = 500
# Assignor of the classic protocol; None: the consumer protocol. An App has no setting of groups then.
Strategy = str | None
Span = tuple[int, int, str]


class Round:
    """One group on a topic of its own."""

    def __init__(self, kafka: KafkaCluster, name: str, directory: Path, stack: ExitStack, ours: Strategy) -> None:
        self.kafka, self.name, self.directory = kafka, name, directory
        self._stack, self._ours = stack, ours
        self.apps: list[AppRun] = []
        self.members: list[tuple[str, ForeignMember]] = []
        self.histories: list[tuple[str, History]] = []
        directory.mkdir()
        kafka.create_topic(name, partitions=PARTITIONS)
        fill(kafka.bootstrap_servers, name, RECORDS, partitions=PARTITIONS)

    def join(self, kind: str, strategy: Strategy) -> None:
        """One more member."""
        if kind == "grete":
            settings: dict[str, object] = {"SERVERS": self.kafka.bootstrap_servers, "TOPIC": self.name}
            settings |= {"GROUP": self.name, "COMMIT_MS": 200, "SESSION_MS": "", "HEARTBEAT_MS": "", "ASSIGNOR": ""}
            settings["PROTOCOL"] = "auto"
            if self._ours is not None:
                settings |= {"PROTOCOL": "classic", "ASSIGNOR": self._ours, "SESSION_MS": 30_000, "HEARTBEAT_MS": 300}
            environment = {f"RECORDER_{name}": value for name, value in settings.items()}
            self.apps.append(self._stack.enter_context(AppRun(RECORDER, self.directory, environment)))
            return
        member: ForeignMember
        if kind == "confluent":
            member = ConfluentMember(self.kafka, self.name, self.name, strategy)
        elif kind == "java":
            member = JavaMember(self.kafka, self.name, self.name, strategy)
        else:
            assert strategy is not None
            member = AiokafkaMember(self.kafka, self.name, self.name, strategy)
        self._stack.callback(member.kill)
        self.members.append((kind, member))

    def leave(self, kind: str) -> None:
        """A member of the kind leaves in order."""
        if kind == "grete":
            run = self.apps.pop()
            assert run.stop() == 0, run.output
            return
        place = next(place for place, (other, _) in enumerate(self.members) if other == kind)
        _, member = self.members.pop(place)
        member.leave()
        self.histories.append((f"{kind}-{len(self.histories)}", member.history))

    def until_shared(self, members: int) -> None:
        shares = [PARTITIONS // members] * members

        def state() -> str:
            found = f"{self.kafka.admin.group_state(self.name)} {self.kafka.admin.members(self.name)}"
            return f"{members} members: {found}\n" + "\n".join(run.output[-2000:] for run in self.apps)

        eventually(lambda: owned(self.kafka, self.name, self.name) == shares, 60.0, state)

    def check(self, ends: dict[int, int], *, is_converted: bool) -> int:
        """Returns how many records came twice. `is_converted`: brokers have converted the group for the App.

        A classic member of such a group whose request meets a newer epoch is refused with ILLEGAL_GENERATION, and
        librdkafka then says that its partitions are lost: it happens when two others leave within 50 ms. What holds
        for records and owners holds all the same.
        """
        ledger = Ledger(self.directory)
        seen: dict[int, Counter[int]] = {partition: Counter() for partition in range(PARTITIONS)}
        for partition, counter in ledger.times_seen().items():
            seen[partition] += counter
        spans: dict[int, list[Span]] = {partition: [] for partition in range(PARTITIONS)}
        for batch in ledger.batches:
            spans[batch.partition].append((batch.begin, batch.end, f"grete-{batch.pid}"))
        for name, history in self.histories:
            assert is_converted or not (lost := history.lost_before_leaving()), (
                f"{name} has lost partitions before it left: {lost}"
            )
            for partition, counter in history.seen.items():
                seen[partition] += counter
            for partition, since, until in history.spans:
                spans[partition].append((since, until, name))
        for partition, end in ends.items():
            assert set(seen[partition]) == set(range(end)), f"partition {partition} of {self.name} is not complete"
            for (_, until, one), (since, _, other) in pairwise(sorted(spans[partition])):
                assert one == other or since >= until, (
                    f"{self.name}[{partition}]: {other} had it {(until - since) / 1e6:.1f} ms before {one} gave it up"
                )
        return sum(times - 1 for counter in seen.values() for times in counter.values())


def play(kafka: KafkaCluster, name: str, directory: Path, kinds: list[str], strategy: Strategy, ours: Strategy) -> int:
    """One round: the first of the kinds leads, the others join, one leaves and comes back. Returns repeated records."""
    chance = random.Random(f"{SEED} {name}")
    with ExitStack() as stack:
        one = Round(kafka, name, directory, stack, ours)
        with (
            commits_never_go_back(kafka, name),
            SteadyProducer(kafka.bootstrap_servers, name, PARTITIONS, PACE) as load,
        ):
            one.join(kinds[0], strategy)
            one.until_shared(1)
            for kind in kinds[1:]:
                one.join(kind, strategy)
            one.until_shared(len(kinds))
            gone = chance.choice(kinds)
            one.leave(gone)
            one.until_shared(len(kinds) - 1)
            one.join(gone, strategy)
            one.until_shared(len(kinds))
            written = load.finish()
            ends = {partition: RECORDS // PARTITIONS + count for partition, count in written.items()}
            eventually(lambda: kafka.admin.lag(name, [name]) == 0, 60.0, "no lag")
            for kind in kinds:
                one.leave(kind)
        return one.check(ends, is_converted=ours is None and strategy is not None)


Play = Callable[[list[str], Strategy, Strategy], None]


@pytest.fixture
def play_rounds(kafka: KafkaCluster, group: str, tmp_path: Path) -> Play:
    """Plays `MIXED_ROUNDS` rounds, in which each kind leads in turn."""

    def rounds(kinds: list[str], strategy: Strategy, ours: Strategy) -> None:
        repeated = 0
        for number in range(ROUNDS):
            lead = number % len(kinds)
            turned = kinds[lead:] + kinds[:lead]
            repeated += play(kafka, f"{group}-{number}", tmp_path / str(number), turned, strategy, ours)
            print(
                f"round {number + 1} of {ROUNDS}, {turned[0]} first: {repeated} records came twice so far", flush=True
            )

    return rounds


@pytest.mark.parametrize(
    ("strategy", "kinds"),
    [
        ("range", ["grete", "confluent", "aiokafka"]),
        ("roundrobin", ["grete", "confluent", "aiokafka"]),
        ("cooperative-sticky", ["grete", "confluent"]),
    ],
    ids=["range", "roundrobin", "cooperative-sticky"],
)
def test_members_of_the_classic_protocol(play_rounds: Play, strategy: str, kinds: list[str]) -> None:
    play_rounds(kinds, strategy, strategy)


@pytest.mark.apache("one of the members is Kafka's own consumer")
@pytest.mark.parametrize(
    ("strategy", "kinds"),
    [
        ("range", ["grete", "confluent", "java", "aiokafka"]),
        ("roundrobin", ["grete", "confluent", "java", "aiokafka"]),
        ("sticky", ["grete", "java"]),
        ("cooperative-sticky", ["grete", "confluent", "java"]),
    ],
    ids=["range", "roundrobin", "sticky", "cooperative-sticky"],
)
def test_members_of_the_classic_protocol_with_java(play_rounds: Play, strategy: str, kinds: list[str]) -> None:
    play_rounds(kinds, strategy, strategy)


def test_members_of_the_consumer_protocol(kafka: KafkaCluster, play_rounds: Play) -> None:
    if kafka.version.startswith("3."):
        pytest.skip("the consumer protocol is there from Kafka 4.0 on")
    play_rounds(["grete", "confluent"], None, None)


@pytest.mark.apache("one of the members is Kafka's own consumer")
def test_members_of_the_consumer_protocol_with_java(kafka: KafkaCluster, play_rounds: Play) -> None:
    if kafka.version.startswith("3."):
        pytest.skip("the consumer protocol is there from Kafka 4.0 on")
    play_rounds(["grete", "confluent", "java"], None, None)


@pytest.mark.apache("embedded brokers do not convert live groups")
@pytest.mark.parametrize(
    ("strategy", "kinds"),
    [
        ("range", ["grete", "confluent", "aiokafka", "java"]),
        ("roundrobin", ["grete", "confluent", "aiokafka", "java"]),
        ("cooperative-sticky", ["grete", "confluent", "java"]),
    ],
    ids=["range", "roundrobin", "cooperative-sticky"],
)
def test_an_app_of_the_consumer_protocol_among_classic_members(
    kafka: KafkaCluster, play_rounds: Play, strategy: str, kinds: list[str]
) -> None:
    """The brokers convert the group for the App, which knows nothing of the others' assignor."""
    if kafka.version.startswith("3."):
        pytest.skip("the consumer protocol is there from Kafka 4.0 on")
    play_rounds(kinds, strategy, None)
