"""Brokers that run elsewhere: Apache Kafka, or any others that speak its protocol."""

import fcntl
import hashlib
import os
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import IO, Any, ClassVar

from grete.client import Admin, Consumer
from grete.errors import GreteError, KafkaError
from grete.testing._kafka.cluster import CLIENT_ID, Cluster
from grete.testing._records import Record

# Seconds in which brokers answer.
_TIMEOUT = 30.0


class RemoteCluster(Cluster):
    """Brokers that tests share. A test owns the topics that it creates, and deletes them at its end.

    Tests of other processes wait meanwhile, so that topics and groups may have the same names in all tests.
    """

    # Brokers that create topics by themselves would leave them behind. So brokers deny a topic at first, then the test
    # creates the topic, and the producer, which waits meanwhile, finds it.
    client_settings: ClassVar[Mapping[str, Any]] = {
        "allow.auto.create.topics": False,
        "topic.metadata.propagation.max.ms": 60_000,
    }

    def __init__(self, bootstrap_servers: str) -> None:
        self.bootstrap_servers = bootstrap_servers
        self._settings = {"bootstrap.servers": bootstrap_servers, "client.id": CLIENT_ID}
        self._lock = _lock(bootstrap_servers)
        try:
            self._admin = Admin(self._settings)
            present = self._admin.topics(timeout=_TIMEOUT)
            # Topics of a test whose process has ended before it could delete them.
            left = sorted({*self._lock.read().split()} & {*present})
            if left:
                self._admin.delete_topics(left, timeout=_TIMEOUT)
            self._foreign = frozenset(present).difference(left)
            self._lock.truncate(0)
        except BaseException:
            _unlock(self._lock)
            raise
        self._own: dict[str, int] = {}

    def create_topics(self, topics: Mapping[str, int]) -> None:
        for name, partitions in topics.items():
            if name in self._own:
                continue
            if name in self._foreign:
                raise GreteError(
                    f'topic "{name}" exists at {self.bootstrap_servers}, and tests create and delete their topics: '
                    "delete it, or test on brokers without such topics"
                )
            self._lock.write(f"{name}\n")
            self._lock.flush()
            self._admin.create_topic(name, partitions, if_not_exists=True, timeout=_TIMEOUT)
            self._own[name] = partitions

    def topics(self) -> dict[str, int]:
        return dict(self._own)

    def ends(self, topics: Iterable[str]) -> dict[tuple[str, int], int]:
        places = [(topic, at, "latest") for topic in topics for at in range(self._partitions(topic))]
        return self._admin.offsets(places, timeout=_TIMEOUT) if places else {}  # type: ignore[arg-type]

    def records(self, topic: str) -> list[Record]:
        ends = {place: end for place, end in self.ends([topic]).items() if end > 0}
        found: list[Record] = []
        if not ends:
            return found
        settings = {**self._settings, "enable.auto.commit": False, "isolation.level": "read_committed"}
        with Consumer(settings) as consumer:
            consumer.assign([(topic, partition, "earliest") for _, partition in ends])
            while any((consumer.position(*place) or 0) < end for place, end in ends.items()):
                found += [Record.of(message) for message in consumer.poll(_TIMEOUT)]
        return sorted(found, key=lambda record: (record.partition, record.offset))

    def committed(self, group: str) -> dict[tuple[str, int], int]:
        return self._admin.committed(group, timeout=_TIMEOUT)

    def release_group(self, group: str) -> None:
        try:
            self._admin.delete_group(group, timeout=_TIMEOUT)
        except KafkaError:
            pass  # it never committed, so the brokers have forgotten the group already

    def close(self) -> None:
        try:
            if self._own:
                self._admin.delete_topics(list(self._own), timeout=_TIMEOUT)
            self._lock.truncate(0)
        finally:
            self._admin.close()
            _unlock(self._lock)

    def on_unknown_topic(self, topic: str) -> None:
        if topic not in self._foreign:
            self.create_topics({topic: 1})

    def _partitions(self, topic: str) -> int:
        if topic not in self._own and topic not in self._foreign and topic in self._admin.topics(timeout=_TIMEOUT):
            # Brokers have created the topic for a producer.
            self._own[topic] = len(self._admin.describe_topic(topic, timeout=_TIMEOUT).partitions)
        return self._own.get(topic, 0)


def _lock(bootstrap_servers: str) -> IO[str]:
    """Waits for the tests of other processes, and returns the file that keeps them waiting until it is closed. The file
    holds the names of the topics that the present test has created.
    """
    name = hashlib.sha256(bootstrap_servers.encode()).hexdigest()[:16]
    path = Path(tempfile.gettempdir()) / f"grete-testing-{name}.topics"
    while True:
        file = path.open("a+")
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
            # The process before may have removed this file, and another one may have locked the next.
            if os.path.samestat(path.stat(), os.fstat(file.fileno())):
                file.seek(0)
                return file
        except FileNotFoundError:
            pass
        except BaseException:
            file.close()
            raise
        file.close()


def _unlock(file: IO[str]) -> None:
    """Lets the tests of other processes go on. The file stays only with names of topics that could not be deleted."""
    file.flush()
    if os.fstat(file.fileno()).st_size == 0:
        Path(file.name).unlink(missing_ok=True)
    file.close()
