"""Choice of the brokers: `pytest --kafka`."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from grete.errors import ConfigError, GreteError
from grete.testing._kafka.cluster import Cluster
from grete.testing._kafka.embedded import EmbeddedCluster
from grete.testing._kafka.fixture import Kafka

_APACHE = "apache:"


class Choice:
    """Brokers for the tests of a session."""

    def __init__(self, text: str) -> None:
        """`text`: embedded, apache:VERSION or HOST:PORT. Raises ConfigError for others."""
        host, colon, port = text.rpartition(":")
        if text != "embedded" and not (colon and host and (port.isdecimal() or text.startswith(_APACHE))):
            raise ConfigError(
                f"--kafka={text}: use embedded, apache:VERSION like apache:4.3.0, or HOST:PORT", setting="--kafka"
            )
        self._text = text
        self._container: object = None
        self._has_worked = False
        self._failure: str | None = None
        self._bootstrap_servers: str | None = None if text == "embedded" or text.startswith(_APACHE) else text

    @contextmanager
    def open(self, topics: Mapping[str, int], brokers: int) -> Iterator[Kafka]:
        """Opens the brokers of one test. `brokers`: number of embedded brokers; others are as many as they are."""
        kafka = Kafka(self._cluster(brokers))
        try:
            kafka.create_topics(topics)
            yield kafka
        finally:
            kafka.close()

    def close(self) -> None:
        """Ends what was started for the session."""
        from grete.testing._kafka.container import Container

        if isinstance(self._container, Container):
            self._container.close()

    def _cluster(self, brokers: int) -> Cluster:
        if self._text == "embedded":
            return EmbeddedCluster(brokers)
        if self._failure is not None:
            raise GreteError(self._failure)
        try:
            cluster = self._remote()
        except GreteError as error:
            if not self._has_worked:
                # Each test would wait as long as the first one.
                self._failure = f"no other test tries again, because pytest --kafka={self._text} failed: {error}"
            raise
        self._has_worked = True
        return cluster

    def _remote(self) -> Cluster:
        from grete.testing._kafka.remote import RemoteCluster

        if self._bootstrap_servers is None:
            from grete.testing._kafka.container import Container

            self._container = container = Container(self._text.removeprefix(_APACHE))
            self._bootstrap_servers = container.bootstrap_servers
        return RemoteCluster(self._bootstrap_servers)
