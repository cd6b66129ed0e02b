"""Faults of the brokers, in a test's words."""

from typing import Any

from grete._units import seconds
from grete.broker import Broker
from grete.errors import GreteError
from grete.testing._kafka.cluster import CLIENT_ID, Cluster
from grete.testing._kafka.running import RunningTestApp

# Requests that the brokers remember.
LOGGED_REQUESTS = 10_000


class NeedsEmbeddedBrokerError(GreteError):
    """The test needs embedded brokers. `pytest` skips it on others."""


class UnusedFaultWarning(UserWarning):
    """A fault of a test has hit no request, as when its topic is misspelt."""


class ClusterClock:
    """Clock of the embedded brokers."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def advance(self, duration: str | float) -> None:
        """Moves the brokers' clock forward, by seconds or a text like "30s"."""
        self._broker.advance_clock(duration)


class Faults:
    """Faults of embedded brokers. On other brokers each method raises NeedsEmbeddedBrokerError: the test is skipped.

    Conditions of faults are `topic`, `partition`, `client_id`, `broker`, `skip` (number of requests that pass first)
    and `times` (number of faults; None: until `heal`). Faults pass by the test's own `kafka.produce`.
    """

    _cluster: Cluster
    _added: list[tuple[str | None, str, str]]

    def fail(self, api: str, error: str, **where: Any) -> None:
        """Answers requests with an error: `kafka.fail("Produce", error="NOT_LEADER_OR_FOLLOWER", times=2)`."""
        self._embedded().fail(api, error, **_except_own(where))
        self._note(api, error, f"kafka.fail({api!r}, {error!r}{_words(where)})")

    def delay(self, api: str | None, duration: str | float, **where: Any) -> None:
        """Handles requests later: `kafka.delay("Fetch", "2s")`. None: requests of all APIs."""
        self._embedded().delay(api, seconds(duration), **_except_own(where))
        fault = f"delay {round(seconds(duration) * 1000)} ms"
        self._note(api, fault, f"kafka.delay({api!r}, {duration!r}{_words(where)})")

    def drop(self, api: str | None, **where: Any) -> None:
        """Neither handles requests nor answers them; the connection stays open."""
        self._embedded().never_answer(api, **_except_own(where))
        self._note(api, "never answer", f"kafka.drop({api!r}{_words(where)})")

    def disconnect(self, api: str | None, *, handled: bool = False, **where: Any) -> None:
        """Closes the connection instead of a response. `handled`: the request takes effect before."""
        self._embedded().disconnect(api, handled=handled, **_except_own(where))
        fault = "disconnect after" if handled else "disconnect"
        text = f"kafka.disconnect({api!r}{', handled=True' if handled else ''}{_words(where)})"
        self._note(api, fault, text)

    def heal(self) -> None:
        """Ends all faults."""
        self._embedded().heal()

    def rebalance(self, group: str) -> None:
        """Starts a rebalance of a group."""
        self._embedded().rebalance(group)

    def expire_session(self, t: RunningTestApp | str, member: str = "") -> None:
        """Removes a running App from its groups, or members of a group, as if their heartbeats had stopped.

        `member`: member id, `group.instance.id` or `client.id` in the group; "": all members.
        """
        if isinstance(t, str):
            self._embedded().expire_session(t, member)
            return
        for group in t.groups:
            self._embedded().expire_session(group, t.client_id)

    def stop_broker(self, broker: int) -> None:
        """Stops one broker, from 1: its connections end, and its partitions move to others."""
        self._embedded().stop_broker(broker)

    def kill_broker(self, broker: int) -> None:
        """Same as `stop_broker`: embedded brokers have nothing to do before they end."""
        self._embedded().stop_broker(broker)

    def start_broker(self, broker: int) -> None:
        """Starts a broker that was stopped, on the same port."""
        self._embedded().start_broker(broker)

    def move(self, topic: str, partition: int, *, to: int) -> None:
        """Makes another broker the leader of a partition."""
        self._embedded().move_leader(topic, partition, to=to)

    @property
    def clock(self) -> ClusterClock:
        """Clock of the brokers: `kafka.clock.advance("30s")`."""
        return ClusterClock(self._embedded())

    @property
    def broker(self) -> Broker:
        """Embedded brokers, with all their commands: see `grete.broker.Broker`."""
        return self._embedded()

    def unused_faults(self) -> list[str]:
        """Returns the faults that have hit no request, as the test wrote them. Empty after 10,000 requests, because
        older ones are forgotten, and on other brokers.
        """
        if not self._added:
            return []
        requests = self._embedded().requests()
        if len(requests) >= LOGGED_REQUESTS:
            return []
        met = {(request.api, request.fault) for request in requests if request.fault is not None}
        return [
            text
            for api, fault, text in self._added
            if (api, fault) not in met and not (api is None and any(fault == name for _, name in met))
        ]

    def _note(self, api: str | None, fault: str, text: str) -> None:
        self._added.append((api, fault, text))

    def _embedded(self) -> Broker:
        broker = getattr(self._cluster, "broker", None)
        if not isinstance(broker, Broker):
            raise NeedsEmbeddedBrokerError(
                f"the brokers at {self._cluster.bootstrap_servers} have no faults: use pytest --kafka=embedded"
            )
        return broker


def _except_own(where: dict[str, Any]) -> dict[str, Any]:
    return where if "client_id" in where else {"except_client_id": CLIENT_ID, **where}


def _words(where: dict[str, Any]) -> str:
    """Returns conditions as a call has them."""
    return "".join(f", {name}={value!r}" for name, value in where.items())
