"""One partition of eight stands still in its handler: the others do not notice, the group neither, the log does."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter

import pytest

import grete
from tests.integration.app_in_process import make, running, until_done
from tests.kafka import KafkaCluster, eventually, fill

pytestmark = pytest.mark.kafka
PARTITIONS = 8
STUCK = 3
# Far below the time that the handler stands still: no thread has to call poll here.
TUNING = {"max.poll.interval.ms": 3000, "session.timeout.ms": 3000, "heartbeat.interval.ms": 500}


class Crowd:
    """Processes two records in 5 ms, but one partition's records stop at a gate while it is closed."""

    def __init__(self, stuck_after: int) -> None:
        """`stuck_after`: records after which the gate closes by itself, should the test be late."""
        self.counts: Counter[int] = Counter()
        self.instances: Counter[int] = Counter()
        self.close, self.inside, self.gate = threading.Event(), threading.Event(), threading.Event()
        crowd = self

        class Member(grete.Consumer):
            def initialize(self) -> None:
                crowd.instances[self.partition] += 1

            def consume(self) -> None:
                if self.partition == STUCK and (crowd.close.is_set() or crowd.counts[STUCK] >= stuck_after):
                    crowd.inside.set()
                    crowd.gate.wait(600)
                if not crowd.gate.is_set():  # afterwards there is nothing to measure, but a lot to catch up with
                    time.sleep(0.005)
                crowd.counts[self.partition] += len(self.messages)

        self.handler = Member

    def others(self) -> int:
        return sum(count for partition, count in self.counts.items() if partition != STUCK)

    def done_in(self, seconds: float) -> int:
        """What the others process in that time. The time itself is what is measured over."""
        before = self.others()
        threading.Event().wait(seconds)
        return self.others() - before


def stick(
    kafka: KafkaCluster, topic: str, group: str, caplog: pytest.LogCaptureFixture, each: int, seconds: float
) -> float:
    """Returns the others' rate while one is stuck, as a share of their rate before.

    `each`: records of a partition; more than the 400 a second that one can do, for 1.5 x `seconds`.
    """
    kafka.create_topic(topic, partitions=PARTITIONS)
    fill(kafka.bootstrap_servers, topic, each * PARTITIONS, partitions=PARTITIONS)
    caplog.set_level(logging.INFO, "grete")
    crowd = Crowd(stuck_after=each * 3 // 4)
    app = make(kafka, group, tuning=TUNING, workers=16)
    app.consumer(topic, max_messages=2, stall_after="1s")(crowd.handler)
    with running(app):
        eventually(lambda: len(crowd.counts) == PARTITIONS, 30.0, "all partitions are at work")
        before = crowd.done_in(seconds / 2) / (seconds / 2)
        crowd.close.set()
        assert crowd.inside.wait(30)
        during = crowd.done_in(seconds) / seconds
        print(f"seven partitions: {before:.0f} records/s, {during:.0f} while the eighth was stuck for {seconds:g} s")
        stalled = [row for row in caplog.records if row.__dict__.get("event") == "consumer.stalled"]
        (stalled_text,) = app.statistics()["stalled"]
        lanes = {lane["partition"]: lane for lane in app.statistics()["lanes"]}
        assert not crowd.gate.is_set()
        # Seven partitions to their ends, while the eighth stands still.
        eventually(
            lambda: crowd.others() == each * (PARTITIONS - 1),
            max(120.0, 10 * seconds),
            lambda: f"the others: {crowd.counts}",
        )
        assert crowd.counts[STUCK] < each
        crowd.gate.set()
        until_done(kafka, app, topic)
    assert crowd.counts == dict.fromkeys(range(PARTITIONS), each)
    assert crowd.instances == dict.fromkeys(range(PARTITIONS), 1), "no partition has left"
    assert len(kafka.generations(group)) == 1, "no rebalance"
    assert len(stalled) == 1, "reported once"
    fields = stalled[0].__dict__
    assert (fields["topic"], str(fields["partition"])) == (topic, str(STUCK))
    assert fields["handler"].endswith("Member.consume")
    assert fields["handler"] in stalled[0].getMessage()
    assert "crowd.gate.wait(600)" in stalled[0].getMessage(), "its stack"
    assert stalled_text.startswith(f"{app.routes[0].name} on {topic}[{STUCK}] for ")
    assert [partition for partition, lane in lanes.items() if lane["stalled"]] == [STUCK]
    assert (lanes[STUCK]["running_for"] or 0.0) >= seconds
    return during / before


def test_seven_partitions_go_on_while_one_is_stuck(
    kafka: KafkaCluster, topic: str, group: str, caplog: pytest.LogCaptureFixture
) -> None:
    stick(kafka, topic, group, caplog, 2000, 3.0)


@pytest.mark.soak
@pytest.mark.timeout(1000)
def test_seven_partitions_keep_their_rate_while_one_is_stuck_for_a_minute(
    kafka: KafkaCluster, topic: str, group: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert stick(kafka, topic, group, caplog, 37_000, 60.0) >= 0.95
