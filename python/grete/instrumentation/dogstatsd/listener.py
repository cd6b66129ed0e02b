"""The listener that has an agent know."""

import logging
import os
import threading
import weakref
from collections import Counter
from collections.abc import Iterable
from typing import Literal

from grete._core import Occurred
from grete.errors import ConfigError
from grete.instrumentation.clock import monotonic
from grete.instrumentation.dogstatsd import address as addresses
from grete.instrumentation.dogstatsd import lines
from grete.instrumentation.dogstatsd.sender import Sender
from grete.instrumentation.telling import tell

logger = logging.getLogger("grete")

# A job's time is 8 bytes or so in a datagram: this many are a few of them.
_MANY = 1000

_living: "weakref.WeakSet[DogStatsD]" = weakref.WeakSet()


class DogStatsD:
    """Tells a Datadog agent: `app.monitor.subscribe(DogStatsD())`.

    The time of each job goes as the distribution `grete.handler.duration_seconds`, tagged by handler, topic and result
    (ok or error); with `times="histogram"` as a histogram, which the agent sums up; with None not at all, and jobs cost
    nothing more. All that /metrics tells goes as gauges and counts whenever `statistics.emitted` comes:
    `grete_lag_seconds` as `grete.lag.seconds`, `grete_jobs_total` as the count `grete.jobs`, labels as tags.

    `address` is "HOST:PORT" or "unix:///PATH/OF/SOCKET"; else DD_DOGSTATSD_URL, DD_AGENT_HOST and DD_DOGSTATSD_PORT
    tell, else it is localhost:8125. `service`, `env` and `version` default to DD_SERVICE (else the App's name), DD_ENV
    and DD_VERSION; these, `tags` (like "team:shop") and in a swarm "node:N" are at every figure. `prefix` goes before
    each name.

    Nothing waits for the agent: what cannot be sent at once is dropped, and counted in `statistics()`. Times of jobs
    wait up to `flush_interval` seconds for others to share a datagram with, when no job comes until the next
    `statistics.emitted`. ConfigError for what cannot be used; an agent that is away is no error.
    """

    # Times by handler, topic and whether they failed: as many keys as there are routes and topics.
    _waiting: dict[tuple[str, str, bool], list[float]]

    def __init__(
        self,
        address: str | None = None,
        *,
        service: str | None = None,
        env: str | None = None,
        version: str | None = None,
        tags: Iterable[str] = (),
        prefix: str = "grete.",
        times: Literal["distribution", "histogram"] | None = "distribution",
        flush_interval: float = 2.0,
    ) -> None:
        if times not in ("distribution", "histogram", None):
            raise ConfigError(f'times is "distribution", "histogram" or None, not {times!r}', setting="times")
        if isinstance(tags, str):
            raise ConfigError(f"tags come in a list, like [{tags!r}]", setting="tags")
        environment = os.environ
        self._sender = Sender(addresses.from_environment(environment) if address is None else addresses.parse(address))
        self._service = service or environment.get("DD_SERVICE") or None
        constant = {
            "env": environment.get("DD_ENV") if env is None else env,
            "version": environment.get("DD_VERSION") if version is None else version,
            # How an agent knows the container that a datagram over UDP is from.
            "dd.internal.entity_id": environment.get("DD_ENTITY_ID"),
        }
        given = [one.translate(lines.UNSAFE) for one in tags]
        self._constant = [*given, *(lines.tag(key, value) for key, value in constant.items() if value)]
        self._tags = self._all_tags(None, None)
        self._prefix = prefix
        self._times = None if times is None else times[0]
        if times is None:
            # No method to the monitor: then jobs go on as if nobody listened.
            vars(self)["on_consumer_consumed"] = None
        self._flush_interval = flush_interval
        self._told = lines.Told()
        self._complained = False
        self._clear()
        _living.add(self)

    def statistics(self) -> dict[str, object]:
        """What became of the datagrams of this process: "sent" and "bytes", "dropped" by reason: away (nobody takes
        them), full (nobody takes them quickly enough), name (the agent's cannot be looked up), too_long, error.
        """
        sender = self._sender
        return {"sent": sender.sent, "bytes": sender.bytes, "dropped": dict(sender.dropped)}

    def flush(self) -> None:
        """Sends the times that wait for others."""
        with self._lock:
            waiting, self._waiting = self._waiting, {}
            self._many, self._flush_at = 0, monotonic() + self._flush_interval
        kind = self._times
        if waiting and kind is not None:
            limit, name = self._sender.address.limit, f"{self._prefix}handler.duration_seconds"
            self._sender.send(
                line
                for (handler, topic, failed), times in waiting.items()
                for line in lines.packed(name, times, kind, self._job_tags(handler, topic, failed), limit)
            )

    def close(self) -> None:
        """Sends what waits, and gives the descriptor back. Whoever goes on takes another one."""
        self.flush()
        self._complain()
        self._sender.close()

    # Of a process that runs handlers

    def on_app_running(self, occurred: Occurred) -> None:
        """The run has begun, and its counts with it."""
        self._tags = self._all_tags(occurred["app"], occurred["node"])
        self._told.begin()
        self._sender.look_up()

    def on_consumer_consumed(self, occurred: Occurred) -> None:
        """A job's time."""
        key = occurred["handler"], occurred["topic"], occurred["error"] is not None
        with self._lock:
            self._waiting.setdefault(key, []).append(occurred["time"])
            self._many += 1
            flush = self._many >= _MANY or monotonic() >= self._flush_at
        if flush:
            self.flush()

    def on_statistics_emitted(self, occurred: Occurred) -> None:
        """All that is measured."""
        statistics = occurred["statistics"]
        self._tags = self._all_tags(statistics["app"], statistics["node"])
        if not self._sender.connected or self._lost():
            # The agent may be somewhere else by now. Here is nobody who waits for us but notices.
            self._sender.look_up()
        self.flush()
        self._sender.send(self._told.lines(occurred["metrics"], self._prefix, self._tags))
        self._complain()

    def on_app_stopped(self, _: Occurred) -> None:
        """The run is over."""
        self.close()

    # Of a swarm's supervisor

    def on_swarm_starting(self, occurred: Occurred) -> None:
        """Names can be looked up: nothing waits yet."""
        self._tags = self._all_tags(occurred["app"], None)
        self._sender.look_up()

    def on_swarm_node_started(self, occurred: Occurred) -> None:
        """Again, if it was there before."""
        if occurred["restarts"]:
            self._count("swarm.restarts", node=occurred["node"])

    def on_swarm_node_died(self, occurred: Occurred) -> None:
        """Its reason, if it was stopped for one, or its signal."""
        reason = occurred["reason"] or occurred["signal"] or f"status_{occurred['status']}"
        self._count("swarm.deaths", node=occurred["node"], reason=reason)

    def on_swarm_stopped(self, _: Occurred) -> None:
        """All nodes are gone."""
        self.close()

    def _count(self, name: str, **tags: object) -> None:
        own = [lines.tag(key, value) for key, value in tags.items()]
        self._sender.send([lines.line(f"{self._prefix}{name}", "1", "c", [*own, *self._tags])])

    def _job_tags(self, handler: str, topic: str, failed: bool) -> list[str]:
        own = lines.tag("handler", handler), lines.tag("topic", topic), f"result:{'error' if failed else 'ok'}"
        return [*own, *self._tags]

    def _all_tags(self, app: str | None, node: int | None) -> list[str]:
        more = {"service": self._service or app, "node": node}
        return [*self._constant, *(lines.tag(key, value) for key, value in more.items() if value is not None)]

    def _lost(self) -> Counter[str]:
        """Datagrams that were dropped since the last complaint, by reason."""
        return Counter(self._sender.dropped) - self._known

    def _complain(self) -> None:
        """In the log, once until all is well again."""
        lost, self._known = self._lost(), Counter(self._sender.dropped)
        if lost and not self._complained:
            reasons = ", ".join(f"{count} {reason}" for reason, count in lost.items())
            tell(
                None,
                logger,
                logging.WARNING,
                "dogstatsd.dropped",
                "the agent at %s does not take all figures, and those are dropped: datagrams so far: %s",
                self._sender.address,
                reasons,
                fields={"address": str(self._sender.address), "dropped": dict(lost)},
            )
        self._complained = bool(lost)

    def _clear(self) -> None:
        self._lock = threading.Lock()
        self._waiting = {}
        self._many = 0
        self._flush_at = monotonic() + self._flush_interval
        self._known = Counter[str]()

    def _forget(self) -> None:
        """In a forked child: what waits is the parent's to send, and so are its counts."""
        self._clear()
        self._told = lines.Told()
        self._complained = False
        self._sender.forget()


def _forget_all() -> None:
    for one in list(_living):
        one._forget()  # noqa: SLF001


os.register_at_fork(after_in_child=_forget_all)
