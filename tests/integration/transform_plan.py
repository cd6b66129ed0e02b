"""What happens in a round of consume, transform and produce: chosen by a seed, so that it can be had again."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

# Milliseconds: faults last longer than these, and have their consequences within seconds.
DELIVERY_MS = 2000
REQUEST_MS = 800
SHORT_SESSION_MS = 2500
LONG_SESSION_MS = 12_000

FAULTS = (
    "hang_broker",
    "kill_broker",
    "fill_disk",
    "refuse_large",
    "refuse_all",
    "stop_app_beside_hung_broker",
    "stop_app",
    "kill_app",
    "hang_app",
    "join_and_leave",
)
# A dead or silent member's partitions go to another one when its session has ended.
SESSION_ENDS = {"kill_app", "hang_app"}
# (handler of apps.transformer, offsets)
HANDLERS = (
    ("each", "auto"),
    ("many", "auto"),
    ("mark-each", "manual"),
    ("middle", "auto"),
    ("async", "auto"),
    ("mark-each", "auto"),
    ("async-mark", "manual"),
    ("send", "auto"),
)
CONCURRENCIES = ("partition", "key", "unordered")
BATCHES = (1, 20, 500, 5000)
# A call that awaits its deliveries lasts as long as `linger.ms`: small ones would take minutes.
AWAITED_BATCHES = (500, 5000)


@dataclass(frozen=True)
class Plan:
    """One round. `at`: behind which part of the output each fault comes."""

    seed: int
    handler: str
    offsets: str
    concurrency: str
    max_messages: int
    kafka: dict[str, int]
    faults: tuple[str, ...]
    at: tuple[float, ...]
    ends_with_fresh_app: bool
    # For what a fault has left to choose: which node, which App.
    random: random.Random = field(repr=False, compare=False)

    @classmethod
    def of(cls, seed: int, control: bool = False) -> Plan:
        """Seeds in a row have all handlers with each concurrency, and all faults, in turn; the rest is random.

        control: the same with a handler that waits for its deliveries.
        """
        source = random.Random(seed)
        handler, offsets = ("waits", "auto") if control else HANDLERS[seed % len(HANDLERS)]
        due = FAULTS[seed % len(FAULTS)]
        faults = [due, *source.sample([fault for fault in FAULTS if fault != due], source.randint(1, 2))]
        source.shuffle(faults)
        session = SHORT_SESSION_MS if SESSION_ENDS & set(faults) else source.choice((SHORT_SESSION_MS, LONG_SESSION_MS))
        kafka = {
            "delivery.timeout.ms": DELIVERY_MS,
            "request.timeout.ms": REQUEST_MS,
            "linger.ms": source.choice((0, 5, 50)),
            "auto.commit.interval.ms": source.choice((50, 100, 300)),
            "session.timeout.ms": session,
            "heartbeat.interval.ms": 400,
            "reconnect.backoff.max.ms": 200,
        }
        return cls(
            seed,
            handler,
            offsets,
            CONCURRENCIES[seed // len(HANDLERS) % len(CONCURRENCIES)],
            source.choice(AWAITED_BATCHES if handler == "send" else BATCHES),
            kafka,
            tuple(faults),
            tuple(sorted(source.uniform(0.05, 0.6) for _ in faults)),
            source.random() < 0.5,
            source,
        )

    @property
    def variant(self) -> str:
        """The handler in a few words."""
        marks = "" if self.offsets == "auto" else f" {self.offsets}"
        return f"{self.handler}{marks} {self.concurrency} max_messages={self.max_messages}"

    @property
    def keeps_order(self) -> str:
        """Within what outputs come in the order of their sources, if none was undelivered: partition, key or ""."""
        return {"partition": "partition", "key": "key"}.get(self.concurrency, "")

    def spec(self, group: str, source: str, target: str, servers: str, per_second: int) -> dict[str, Any]:
        """What `apps.transformer` reads."""
        route = {
            "concurrency": self.concurrency,
            "offsets": self.offsets,
            "max_messages": self.max_messages,
            "rate_limit": f"{per_second}/s",
        }
        kafka = {"bootstrap.servers": servers, **self.kafka}
        return {
            "group": group,
            "source": source,
            "target": target,
            "handler": self.handler,
            "route": route,
            "kafka": kafka,
        }
