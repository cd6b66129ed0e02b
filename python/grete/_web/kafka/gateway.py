"""Requests to brokers, for many pages: results are kept for some seconds, and none waits for long."""

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

from grete.client import Admin, Consumer, GroupDescription, GroupListing, Lag, TopicDescription
from grete.client.cluster import Cluster, ConfigEntry
from grete.errors import PartialResultError

TIMEOUT = 10.0
"""Seconds for a request."""
_KEPT = 3.0
_KEPT_RESULTS = 500

T = TypeVar("T")
# A reader of the pages shows what committed transactions have written, and begins where there are records.
_CONSUMER = {"auto.offset.reset": "earliest", "enable.auto.commit": "false", "isolation.level": "read_committed"}


class Gateway:
    """Admin client with a cache. Thread-safe."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        """`settings`: those of Kafka."""
        self.settings = dict(settings)
        self.admin = Admin(self.settings)
        self._lock = threading.Lock()
        self._results: dict[tuple[str, ...], tuple[float, Any]] = {}

    def close(self) -> None:
        """Closes the client."""
        self.admin.close()

    @contextmanager
    def consumer(self, **settings: str) -> Iterator[Consumer]:
        """Opens a consumer for one request."""
        with Consumer(self.settings | _CONSUMER | settings) as consumer:
            yield consumer

    def groups(self) -> list[GroupListing]:
        """Returns all groups that brokers list; those of brokers that do not answer are missing."""

        def ask() -> list[GroupListing]:
            try:
                return self.admin.groups(timeout=TIMEOUT)
            except PartialResultError as error:
                found: list[GroupListing] = error.partial  # type: ignore[assignment]
                return found

        return self._kept(("groups",), ask)

    def group(self, name: str) -> GroupDescription:
        """Returns the members of a group."""
        return self._kept(("group", name), lambda: self.admin.describe_group(name, timeout=TIMEOUT))

    def lag(self, group: str) -> dict[tuple[str, int], Lag]:
        """Returns the lag of a group, as brokers know it."""
        return self._kept(("lag", group), lambda: self.admin.lag(group, timeout=TIMEOUT))

    def topics(self) -> list[TopicDescription]:
        """Returns all topics."""
        return self._kept(("topics",), lambda: self.admin.all_topics(timeout=TIMEOUT))

    def topic(self, name: str) -> TopicDescription:
        """Returns one topic. Raises UnknownTopicError."""
        return self._kept(("topic", name), lambda: self.admin.describe_topic(name, timeout=TIMEOUT))

    def config(self, topic: str) -> dict[str, ConfigEntry]:
        """Returns the settings of a topic."""
        return self._kept(("config", topic), lambda: self.admin.config(topic, timeout=TIMEOUT))

    def cluster(self) -> Cluster:
        """Returns the brokers."""
        return self._kept(("cluster",), lambda: self.admin.cluster(timeout=TIMEOUT))

    def ranges(self, topic: str, *, fresh: bool = False) -> dict[int, tuple[int, int]]:
        """Returns the first offset and the end of each partition. `fresh`: as they are now."""

        def ask() -> dict[int, tuple[int, int]]:
            numbers = [partition.id for partition in self.topic(topic).partitions]
            begins = self.admin.offsets([(topic, number, "earliest") for number in numbers], timeout=TIMEOUT)
            ends = self.admin.offsets([(topic, number, "latest") for number in numbers], timeout=TIMEOUT)
            return {number: (begins[topic, number], ends[topic, number]) for number in numbers}

        return ask() if fresh else self._kept(("ranges", topic), ask)

    def _kept(self, key: tuple[str, ...], ask: Callable[[], T]) -> T:
        now = time.monotonic()
        with self._lock:
            found = self._results.get(key)
            if found is not None and now - found[0] < _KEPT:
                result: T = found[1]
                return result
        result = ask()
        with self._lock:
            if len(self._results) >= _KEPT_RESULTS:
                self._results = {name: one for name, one in self._results.items() if now - one[0] < _KEPT}
            self._results[key] = (now, result)
        return result
