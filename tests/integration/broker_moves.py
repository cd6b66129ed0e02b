"""Blows to one broker of three at a time: a plan made by a seed, so that it can be had again."""

from __future__ import annotations

import random
import signal
from collections.abc import Sequence

from tests.kafka import KafkaCluster, eventually

BLOWS = ("kill", "kill", "kill", "hang", "stop")


def plan(seed: int, count: int, kills: int) -> list[tuple[str, int, float]]:
    """`count` blows as (kind, node, where in its slice of the load), at least `kills` of them by SIGKILL."""
    source = random.Random(seed)
    kinds = ["kill"] * kills + [source.choice(BLOWS) for _ in range(count - kills)]
    source.shuffle(kinds)
    return [(kind, source.randint(1, 3), source.uniform(0.1, 0.5)) for kind in kinds]


class BrokerMoves:
    """Deals blows, and undoes each before the next: never are two nodes away at once.

    topics: all of their replicas must be in sync again before a blow is undone, and then the leaders move back.
    """

    def __init__(self, kafka: KafkaCluster, topics: Sequence[str]) -> None:
        self._kafka = kafka
        self._topics = topics
        self._away: tuple[str, int] | None = None

    def blow(self, kind: str, node: int) -> None:
        """kill: SIGKILL; hang: SIGSTOP; stop: SIGTERM, so that the leaders move away before it ends."""
        assert self._away is None, f"{self._away} is away"
        self._away = (kind, node)
        if kind == "stop":
            self._kafka.stop(node)
        else:
            self._kafka.kill(node, signal.SIGKILL if kind == "kill" else signal.SIGSTOP)

    def undo(self) -> None:
        """Bring the node back; returns when it has caught up."""
        if self._away is None:
            return
        kind, node = self._away
        if kind == "hang":
            self._kafka.kill(node, signal.SIGCONT)
        else:
            self._kafka.start(node)
        self._away = None
        for topic in self._topics:
            eventually(lambda topic=topic: self._kafka.admin.in_sync(topic) == 3, 120.0, f"all replicas of {topic}")  # type: ignore[misc]

    def move_leaders(self) -> None:
        """Leaders go back to where they were at first: most blows have moved some."""
        for topic in self._topics:
            self._kafka.elect_preferred(topic)
