"""Records that cannot be processed go to their route's dead letter topic, whole, with what has happened to them."""

import logging
from collections.abc import Callable, Mapping
from datetime import UTC, datetime

from grete._core import Delivery, Job, Message
from grete.client import Producer
from grete.dlq import headers
from grete.errors import DeadLetterError, DeliveryError, RecordTooLargeError, TimeoutError, UnknownTopicError  # noqa: A004
from grete.instrumentation.monitor import Monitor
from grete.instrumentation.telling import tell
from grete.routes import Route

logger = logging.getLogger("grete")

# Seconds: for the topic's partitions, and for a broker's answer. The worker is free for others after that, and the lane
# comes back after its backoff.
_WAIT = 10.0
# An error's text may hold a whole record; this much of it is kept in the header, in characters.
_LONGEST = 8192

Headers = list[tuple[str, bytes | None]]


class DeadLetters:
    """Writes dead letters with the producer that all consumers share. From any thread."""

    def __init__(
        self, producer: Callable[[], Producer], groups: Mapping[int, str], monitor: Monitor | None = None
    ) -> None:
        """`groups`: consumer groups by `Route.id`."""
        self._producer = producer
        self._groups = groups
        self._monitor = monitor
        # Topics that have been there once: producing to these does not wait for metadata.
        self._known: set[str] = set()
        # Sent, and not answered in time, by lane and offset: the next try waits for these instead of sending twice.
        self._pending: dict[tuple[int, int], Delivery] = {}

    def send(self, route: Route, job: Job) -> None:
        """Writes the job's record and waits for the broker's answer. Raises DeadLetterError when it is not written.

        Only then may the record be marked. One that is too large for the topic is sent without the error's text;
        if that is too large still, it stays where it is, and so does its partition: nothing is cut off, and nothing
        lost in silence.
        """
        topic, messages = route.dead_letter, job.messages
        if topic is None or messages is None or not len(messages):
            raise AssertionError(f"{job!r} has nothing to send, or nowhere to send it to")
        message = messages[0]
        unit = job.lane, message.offset
        try:
            delivery = self._pending.pop(unit, None) or self._produce(topic, job, message, with_text=True)
            try:
                self._settle(unit, delivery)
            except DeliveryError as error:
                if error.name != "MESSAGE_TOO_LARGE":
                    raise
                delivery = self._produce(topic, job, message, with_text=False)
                self._settle(unit, delivery)
        except Exception as error:
            self._known.discard(topic)
            place = f"{message.topic}[{message.partition}] offset {message.offset}"
            raise DeadLetterError(
                f'record {place} could not be written to "{topic}": {_cure(topic, error)}',
                dead_letter=topic,
                topic=message.topic,
                partition=message.partition,
                offset=message.offset,
            ) from error
        attempts, kind, text, _, _ = _trouble(job)
        tell(
            self._monitor,
            logger,
            logging.WARNING,
            "consumer.dead_letter",
            "record %s[%d] offset %d has failed %d times (%s: %s) and is now in %s[%d] at offset %s",
            message.topic,
            message.partition,
            message.offset,
            attempts,
            kind,
            shortened(text, 500),
            delivery.topic,
            delivery.partition,
            delivery.offset,
            fields={
                "handler": route.name,
                "topic": message.topic,
                "partition": message.partition,
                "offset": message.offset,
                "dead_letter": topic,
                "attempts": attempts,
            },
        )

    def forget(self, lane: int) -> None:
        """The lane is gone: nobody will ask again for what became of its records."""
        for unit in [unit for unit in list(self._pending) if unit[0] == lane]:
            self._pending.pop(unit, None)

    def _produce(self, topic: str, job: Job, message: Message, *, with_text: bool) -> Delivery:
        producer = self._producer()
        if topic not in self._known:
            # The bounded wait: `produce` would wait for a missing topic for as long as `max.block.ms` says.
            producer.partitions(topic, _WAIT)
            self._known.add(topic)
        whole = self._headers(job, message)
        timestamp = message.timestamp if message.timestamp >= 0 else None
        if with_text:
            try:
                return producer.produce(topic, message.value, key=message.key, headers=whole, timestamp=timestamp)
            except RecordTooLargeError:
                pass
        slim: Headers = [(name, b"" if name == headers.ERROR_MESSAGE else value) for name, value in whole]
        return producer.produce(topic, message.value, key=message.key, headers=slim, timestamp=timestamp)

    def _settle(self, unit: tuple[int, int], delivery: Delivery) -> None:
        try:
            delivery.wait(_WAIT)
        except TimeoutError:
            self._pending[unit] = delivery
            raise

    def _headers(self, job: Job, message: Message) -> Headers:
        """The record's own, then ours."""
        attempts, kind, text, first, last = _trouble(job)
        ours = {
            headers.SOURCE_TOPIC: message.topic,
            headers.SOURCE_PARTITION: str(message.partition),
            headers.SOURCE_OFFSET: str(message.offset),
            headers.SOURCE_GROUP: self._groups[job.route],
            headers.ATTEMPTS: str(attempts),
            headers.ERROR_CLASS: kind,
            headers.ERROR_MESSAGE: shortened(text, _LONGEST),
            headers.FIRST_FAILED: _iso(first),
            headers.LAST_FAILED: _iso(last),
        }
        own: Headers = [(name, value) for name, value in message.headers if name not in headers.OF_A_FAILURE]
        return own + [(name, value.encode("utf-8", "replace")) for name, value in ours.items()]


def shortened(text: str, longest: int) -> str:
    """At most so many characters of a text, the end marked as missing."""
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def _trouble(job: Job) -> tuple[int, str, str, int, int]:
    trouble = job.trouble
    if trouble is None:
        raise AssertionError(f"{job!r} does not say what has failed")
    return trouble


def _iso(milliseconds: int) -> str:
    """ISO 8601, UTC, with milliseconds."""
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _cure(topic: str, error: Exception) -> str:
    if isinstance(error, UnknownTopicError):
        return f"there is no such topic: create it (grete topics create {topic})"
    if isinstance(error, RecordTooLargeError):
        return f"{error}; raise max.request.size in the App's kafka settings (and max.message.bytes of the topic)"
    if isinstance(error, DeliveryError) and error.name == "MESSAGE_TOO_LARGE":
        return f"{error}; raise max.message.bytes of the topic (message.max.bytes of the broker)"
    if isinstance(error, TimeoutError):
        return f"{error}; if it is on its way still, the next try waits for the same answer"
    return f"{type(error).__name__}: {error}"
