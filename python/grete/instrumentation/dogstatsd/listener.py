"""Listener that sends metrics to a Datadog agent."""

import logging
import os
import threading
import weakref
from collections import Counter
from collections.abc import Iterable
from typing import Literal

from grete._native import Event
from grete.errors import ConfigError
from grete.instrumentation.clock import monotonic
from grete.instrumentation.dogstatsd import address as addresses
from grete.instrumentation.dogstatsd import protocol
from grete.instrumentation.dogstatsd.sender import Sender
from grete.instrumentation.emit import log_and_emit

logger = logging.getLogger("grete")

# Times of jobs in memory; each takes about 8 bytes in a datagram, so this is a few datagrams.
_MAX_WAITING = 1000

_instances: "weakref.WeakSet[DogStatsD]" = weakref.WeakSet()


class DogStatsD:
    """Sends metrics to a Datadog agent: `app.monitor.subscribe(DogStatsD())`.

    The time of each job is sent as the distribution `grete.handler.duration_seconds`, tagged by handler, topic and
    result (ok or error). With `times="histogram"` it is a histogram, which the agent aggregates. With None it is not
    sent, and jobs cost nothing more. All metrics of /metrics are sent as gauges and counts with each
    `statistics.emitted`: `grete_lag_seconds` as `grete.lag.seconds`, `grete_jobs_total` as the count `grete.jobs`,
    labels as tags.

    `address` is "HOST:PORT" or "unix:///PATH/OF/SOCKET". Its default is DD_DOGSTATSD_URL, else DD_AGENT_HOST and
    DD_DOGSTATSD_PORT, else localhost:8125. `service`, `env` and `version` default to DD_SERVICE (else the App's name),
    DD_ENV and DD_VERSION. These, `tags` (like "team:shop") and in a swarm "node:N" are tags of every metric. `prefix`
    goes before each name.

    No thread waits for the agent: a datagram that cannot be sent at once is dropped, and counted in `statistics()`.
    Times of jobs wait up to `flush_interval` seconds to share a datagram, without further jobs until the next
    `statistics.emitted`. Raises ConfigError for invalid values; an unreachable agent is no error.
    """

    # Times by (handler, topic, failed): as many keys as there are routes and topics.
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
            # Lets the agent identify the container of a datagram over UDP.
            "dd.internal.entity_id": environment.get("DD_ENTITY_ID"),
        }
        given = [one.translate(protocol.UNSAFE) for one in tags]
        self._constant = [*given, *(protocol.tag(key, value) for key, value in constant.items() if value)]
        self._tags = self._all_tags(None, None)
        self._prefix = prefix
        self._times = None if times is None else times[0]
        if times is None:
            # No listener method for the monitor, so that jobs cost as little as without listeners.
            vars(self)["on_job_finished"] = None
        self._flush_interval = flush_interval
        self._counter_deltas = protocol.CounterDeltas()
        self._drops_logged = False
        self._reset()
        _instances.add(self)

    def statistics(self) -> dict[str, object]:
        """Returns the numbers of datagrams of this process: "sent", "bytes", and "dropped" by reason.

        Reasons are away (no listening agent), full (the agent reads too slowly), name (host name cannot be resolved),
        too_long, error.
        """
        sender = self._sender
        return {"sent": sender.sent, "bytes": sender.bytes, "dropped": dict(sender.dropped)}

    def flush(self) -> None:
        """Sends the times that wait to share a datagram."""
        with self._lock:
            waiting, self._waiting = self._waiting, {}
            self._waiting_count, self._flush_at = 0, monotonic() + self._flush_interval
        kind = self._times
        if waiting and kind is not None:
            limit, name = self._sender.address.max_datagram_bytes, f"{self._prefix}handler.duration_seconds"
            self._sender.send(
                line
                for (handler, topic, failed), times in waiting.items()
                for line in protocol.pack_values(name, times, kind, self._job_tags(handler, topic, failed), limit)
            )

    def close(self) -> None:
        """Sends what waits, and closes the socket. A later send opens another one."""
        self.flush()
        self._log_dropped()
        self._sender.close()

    # Events of a process that runs handlers

    def on_app_running(self, occurred: Event) -> None:
        """Resets the counters for a new run."""
        self._tags = self._all_tags(occurred["app"], occurred["node"])
        self._counter_deltas.begin_run()
        self._sender.resolve()

    def on_job_finished(self, occurred: Event) -> None:
        """Stores a job's time."""
        key = occurred["handler"], occurred["topic"], occurred["error"] is not None
        with self._lock:
            self._waiting.setdefault(key, []).append(occurred["time"])
            self._waiting_count += 1
            flush = self._waiting_count >= _MAX_WAITING or monotonic() >= self._flush_at
        if flush:
            self.flush()

    def on_statistics_emitted(self, occurred: Event) -> None:
        """Sends all metrics."""
        statistics = occurred["statistics"]
        self._tags = self._all_tags(statistics["app"], statistics["node"])
        if not self._sender.connected or self._newly_dropped():
            # The agent may have moved. No handler waits for this thread, so it may resolve the name.
            self._sender.resolve()
        self.flush()
        self._sender.send(self._counter_deltas.lines(occurred["metrics"], self._prefix, self._tags))
        self._log_dropped()

    def on_app_stopped(self, _: Event) -> None:
        """Sends what waits at the end of the run."""
        self.close()

    # Events of a swarm's supervisor

    def on_swarm_starting(self, occurred: Event) -> None:
        """Resolves the agent's name, as nothing waits for the supervisor yet."""
        self._tags = self._all_tags(occurred["app"], None)
        self._sender.resolve()

    def on_swarm_node_started(self, occurred: Event) -> None:
        """Counts a restart."""
        if occurred["restarts"]:
            self._count("swarm.restarts", node=occurred["node"])

    def on_swarm_node_died(self, occurred: Event) -> None:
        """Counts a death, by the reason of its stop, or by its signal or exit status."""
        reason = occurred["reason"] or occurred["signal"] or f"status_{occurred['status']}"
        self._count("swarm.deaths", node=occurred["node"], reason=reason)

    def on_swarm_stopped(self, _: Event) -> None:
        """Sends what waits after all nodes have ended."""
        self.close()

    def _count(self, name: str, **tags: object) -> None:
        own = [protocol.tag(key, value) for key, value in tags.items()]
        self._sender.send([protocol.line(f"{self._prefix}{name}", "1", "c", [*own, *self._tags])])

    def _job_tags(self, handler: str, topic: str, failed: bool) -> list[str]:
        own = protocol.tag("handler", handler), protocol.tag("topic", topic), f"result:{'error' if failed else 'ok'}"
        return [*own, *self._tags]

    def _all_tags(self, app: str | None, node: int | None) -> list[str]:
        more = {"service": self._service or app, "node": node}
        return [*self._constant, *(protocol.tag(key, value) for key, value in more.items() if value is not None)]

    def _newly_dropped(self) -> Counter[str]:
        """Returns the datagrams dropped since the last check, by reason."""
        return Counter(self._sender.dropped) - self._dropped_before

    def _log_dropped(self) -> None:
        """Logs drops, once until no datagram is dropped any more."""
        newly_dropped, self._dropped_before = self._newly_dropped(), Counter(self._sender.dropped)
        if newly_dropped and not self._drops_logged:
            reasons = ", ".join(f"{count} {reason}" for reason, count in newly_dropped.items())
            log_and_emit(
                None,
                logger,
                logging.WARNING,
                "dogstatsd.dropped",
                "the agent at %s does not accept all metrics; dropped datagrams: %s",
                self._sender.address,
                reasons,
                fields={"address": str(self._sender.address), "dropped": dict(newly_dropped)},
            )
        self._drops_logged = bool(newly_dropped)

    def _reset(self) -> None:
        self._lock = threading.Lock()
        self._waiting = {}
        self._waiting_count = 0
        self._flush_at = monotonic() + self._flush_interval
        self._dropped_before = Counter[str]()

    def _reset_after_fork(self) -> None:
        """Resets the state in a forked child: waiting times and counts are the parent's."""
        self._reset()
        self._counter_deltas = protocol.CounterDeltas()
        self._drops_logged = False
        self._sender.reset_after_fork()


def _reset_all_after_fork() -> None:
    for one in list(_instances):
        one._reset_after_fork()  # noqa: SLF001


os.register_at_fork(after_in_child=_reset_all_after_fork)
