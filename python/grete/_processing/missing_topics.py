"""Topics that an App needs and that do not exist: shown in log, statistics and probes, created if allowed."""

import logging
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence

from grete import _native, client
from grete._config import topic_patterns
from grete._plural import counted
from grete._routing.routes import Route
from grete.errors import AuthorizationError, GreteError, TimeoutError, UnknownTopicError  # noqa: A004
from grete.instrumentation.emit import log_and_emit
from grete.instrumentation.monitor import Monitor

logger = logging.getLogger("grete")

# Timeout of one request in seconds. While no broker can be reached, requests follow each other.
_REQUEST_TIMEOUT = 10.0
# Seconds until missing topics are looked up again.
_RECHECK_INTERVAL = 30.0
# Dead letters have the timestamps of their records, so any retention limit might delete them at once.
_UNLIMITED_RETENTION = {"retention.ms": "-1"}
_NO_TOPIC = "UNKNOWN_TOPIC_OR_PARTITION"
_NOT_ALLOWED = "TOPIC_AUTHORIZATION_FAILED"


class MissingTopics:
    """Missing topics of one run.

    Topics that are read are known from log events of the clients. Topics that results and dead letters are written to
    are looked up by a thread, which exists only while some of them are missing or unchecked.
    """

    def __init__(
        self,
        routes: Sequence[Route],
        on_change: Callable[[list[tuple[str, str]]], None],
        *,
        settings: Mapping[str, str],
        create: bool,
        monitor: Monitor | None = None,
    ) -> None:
        """`on_change` gets all missing topics, each with a text. `settings`: Kafka's, for `create`."""
        self._on_change = on_change
        self._settings = settings
        self._create = create
        self._monitor = monitor
        self._readers: dict[str, str] = {}
        for route in routes:
            self._readers |= dict.fromkeys(topic_patterns.names(route.topics), route.name)
        self._missing: dict[str, str] = {}
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None

    def start_check(self, routes: Sequence[Route], clients: Mapping[int, _native.Client]) -> None:
        """Checks the topics of `dead_letter=` and `publish=` of these routes in the background. `clients` go by
        `Route.id`.
        """
        unchecked: dict[str, tuple[Route, str]] = {}
        # A record that is written creates its topic where that is allowed.
        if str(self._settings.get("allow.auto.create.topics", "false")).lower() != "true":
            unchecked |= {route.publish: (route, "publish") for route in routes if route.publish is not None}
        unchecked |= {route.dead_letter: (route, "dead_letter") for route in routes if route.dead_letter is not None}
        if unchecked:
            self._thread = threading.Thread(
                target=self._poll, args=(unchecked, clients), name="grete-topics", daemon=True
            )
            self._thread.start()

    @property
    def missing(self) -> list[str]:
        """Texts for all missing topics."""
        with self._lock:
            return list(self._missing.values())

    def on_log_events(self, events: Iterable[_native.LogEvent]) -> None:
        """Updates the missing topics from log events of clients about topics that they read."""
        for event in events:
            if event.name not in ("topic.error", "topic.unknown", "topic.recovered"):
                continue
            topic = event.fields["topic"]
            reader = self._readers.get(topic)
            if reader is None:
                continue
            if event.name == "topic.recovered":
                self._set_missing(topic, None)
            elif event.fields.get("error") == _NOT_ALLOWED:
                self._set_missing(topic, f"{reader} cannot read: {event.message}")
            elif event.name == "topic.unknown" and topic in self._missing:
                continue  # the error of the topic says more
            elif event.fields.get("error", _NO_TOPIC) == _NO_TOPIC:
                text = (
                    f'topic "{topic}" does not exist, and {reader} reads it: create it (grete topics create {topic}), '
                    "or correct its name"
                )
                self._set_missing(topic, text)

    def close(self) -> None:
        """Ends the checks. A request that is under way ends with its client."""
        self._closed.set()

    # In the background thread

    def _poll(self, unchecked: dict[str, tuple[Route, str]], clients: Mapping[int, _native.Client]) -> None:
        reported: dict[str, str] = {}  # by topic: what was reported last
        while unchecked and not self._closed.is_set():
            unreachable = False
            for topic, (route, setting) in list(unchecked.items()):
                try:
                    if self._check_topic(topic, route, setting, clients[route.id], reported):
                        del unchecked[topic]
                except TimeoutError:
                    unreachable = True  # the clients log that themselves
                except AuthorizationError:
                    self._report_concealed(topic, route, setting, clients[route.id].user(), reported)
                except GreteError:
                    return  # the client is closed, or has failed: the App stops
            self._closed.wait(1.0 if unreachable else _RECHECK_INTERVAL)

    def _check_topic(
        self, topic: str, route: Route, setting: str, client: _native.Client, reported: dict[str, str]
    ) -> bool:
        try:
            client.partitions(topic, _REQUEST_TIMEOUT)
        except UnknownTopicError:
            error: Exception | None = None
            count = self._max_partitions(route, client)
            if setting == "dead_letter" and self._create and count:
                error = self._create_topic(topic, route, count)
                if error is None:
                    return True
            if reported.get(topic) != "missing" and not self._closed.is_set():
                reported[topic] = "missing"
                if setting == "publish":
                    self._report_missing_output(topic, route, count)
                else:
                    self._report_missing(topic, route, count, error)
            return False
        if topic in reported:
            self._set_missing(topic, None)
            log_and_emit(
                self._monitor,
                logger,
                logging.INFO,
                "topic.recovered",
                'topic "%s", the %s topic of %s, exists now',
                topic,
                "output" if setting == "publish" else "dead letter",
                route.name,
                fields={"topic": topic},
            )
        return True

    def _max_partitions(self, route: Route, client: _native.Client) -> int:
        """Returns the largest number of partitions of the route's topics; 0: none of the topics exists."""
        counts = [0]
        for topic in topic_patterns.names(route.topics):
            try:
                counts.append(len(client.partitions(topic, _REQUEST_TIMEOUT)))
            except (UnknownTopicError, AuthorizationError):
                continue
        return max(counts)

    def _create_topic(self, topic: str, route: Route, partitions: int) -> Exception | None:
        try:
            with client.Admin(self._settings) as admin:
                created = admin.create_topic(
                    topic, partitions, config=_UNLIMITED_RETENTION, if_not_exists=True, timeout=_REQUEST_TIMEOUT
                )
        except GreteError as error:
            return error
        self._set_missing(topic, None)
        if created:
            log_and_emit(
                self._monitor,
                logger,
                logging.INFO,
                "topic.created",
                'topic "%s" was created with %s, like %s: the dead letter topic of %s did not exist',
                topic,
                counted(partitions, "partition"),
                ", ".join(route.topics),
                route.name,
                fields={"topic": topic, "handler": route.name, "partitions": partitions},
            )
        return None

    def _report_missing(self, topic: str, route: Route, partitions: int, error: Exception | None) -> None:
        as_many = f" --partitions {partitions}" if partitions else ""
        cure = f"create it (grete topics create {topic}{as_many} --config retention.ms=-1)"
        if error is not None:
            cure = f"it could not be created ({error}): {cure}"
        elif not self._create:
            cure += ", or set dead_letter_create=True"
        text = (
            f'topic "{topic}" does not exist, and {route.name} ({", ".join(route.topics)}) has it as dead_letter: a '
            f"record that is given up will hold up its partition; {cure}"
        )
        self._warn_missing(topic, route, "dead_letter", text)

    def _report_missing_output(self, topic: str, route: Route, partitions: int) -> None:
        as_many = f" --partitions {partitions}" if partitions else ""
        text = (
            f'topic "{topic}" does not exist, and {route.name} ({", ".join(route.topics)}) writes its results to it '
            "(publish): a record with a result will hold up its partition until the topic exists; create it (grete "
            f"topics create {topic}{as_many}), or correct its name"
        )
        self._warn_missing(topic, route, "publish", text)

    def _report_concealed(
        self, topic: str, route: Route, setting: str, user: str | None, reported: dict[str, str]
    ) -> None:
        """Reports a topic that the client may not see, and therefore not write: Write implies Describe."""
        if reported.get(topic) == "concealed" or self._closed.is_set():
            return
        reported[topic] = "concealed"
        needed = _native.needed_acl("Write", "topic", topic, user)
        text = (
            f'topic "{topic}" may exist, but the client has no Describe on it, so brokers do not say, and {route.name} '
            f"({', '.join(route.topics)}) has it as {setting}: a record for it will hold up its partition; {needed}"
        )
        self._warn_missing(topic, route, setting, text)

    def _warn_missing(self, topic: str, route: Route, setting: str, text: str) -> None:
        self._set_missing(topic, text)
        log_and_emit(
            self._monitor,
            logger,
            logging.WARNING,
            "topic.missing",
            "%s",
            text,
            fields={"topic": topic, "handler": route.name, "setting": setting},
        )

    def _set_missing(self, topic: str, text: str | None) -> None:
        with self._lock:
            if self._missing.get(topic) == text:
                return
            if text is None:
                del self._missing[topic]
            else:
                self._missing[topic] = text
            # Under the lock, so that the calls arrive in the order of the changes.
            self._on_change(list(self._missing.items()))
