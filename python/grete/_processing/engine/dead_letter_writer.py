"""Writes records that cannot be processed to their route's dead letter topic, with headers about the failure."""

import functools
import logging
from collections.abc import Callable, Mapping
from datetime import UTC, datetime

from grete._dlq import header_names
from grete._native import Delivery, Job, Message
from grete._plural import counted
from grete._routing.routes import Route
from grete.client import Producer
from grete.errors import DeadLetterError, DeliveryError, RecordTooLargeError, TimeoutError, UnknownTopicError  # noqa: A004
from grete.instrumentation._logging.error_report import truncate
from grete.instrumentation.emit import log_and_emit
from grete.instrumentation.monitor import Monitor

logger = logging.getLogger("grete")

# Timeout in seconds, for the topic's metadata and for a broker's response. After it, the worker is free for other jobs,
# and the lane retries after its backoff.
_TIMEOUT = 10.0
# Maximum characters of the error's text in its header: the text may hold a whole record.
_MAX_HEADER_TEXT = 8192

Headers = list[tuple[str, bytes | None]]


class DeadLetters:
    """Writes dead letters with the producer that all consumers share. Thread-safe."""

    def __init__(
        self, producer: Callable[[], Producer], groups: Mapping[int, str], monitor: Monitor | None = None
    ) -> None:
        """`groups`: consumer groups by `Route.id`."""
        self._producer = producer
        self._groups = groups
        self._monitor = monitor
        # Topics that have existed once: producing to them does not wait for metadata.
        self._existing_topics: set[str] = set()
        # Deliveries not acknowledged in time, by lane and offset: the next attempt waits for them instead of sending
        # twice.
        self._pending: dict[tuple[int, int], Delivery] = {}

    def send(self, route: Route, job: Job) -> None:
        """Writes the job's record and waits for the acknowledgement. Raises DeadLetterError if the record was not
        written.

        The record may be marked only after a return. A record that is too large for the topic is sent without the
        error's text. If it is still too large, the record stays where it is, and its partition waits: nothing is
        truncated, and nothing is lost silently.
        """
        topic, messages = route.dead_letter, job.messages
        if topic is None or messages is None or not len(messages):
            raise AssertionError(f"{job!r} has nothing to send, or nowhere to send it to")
        message = messages[0]
        unit = job.lane, message.offset
        try:
            if job.exactly_once:
                self._log_written(route, job, message, self._produce(topic, job, message, with_text=True))
                return
            delivery = self._pending.pop(unit, None) or self._produce(topic, job, message, with_text=True)
            try:
                self._wait_for_delivery(unit, delivery)
            except DeliveryError as error:
                if error.name != "MESSAGE_TOO_LARGE":
                    raise
                delivery = self._produce(topic, job, message, with_text=False)
                self._wait_for_delivery(unit, delivery)
        except Exception as error:
            self._existing_topics.discard(topic)
            place = f"{message.topic}[{message.partition}]@{message.offset}"
            raise DeadLetterError(
                f'record {place} could not be written to "{topic}": {_remedy(topic, error)}',
                dead_letter=topic,
                topic=message.topic,
                partition=message.partition,
                offset=message.offset,
            ) from error
        self._log_written(route, job, message, delivery)

    def _log_written(self, route: Route, job: Job, message: Message, delivery: Delivery) -> None:
        attempts, kind, text, _, _ = _failure_of(job)
        # The dead letter of an exactly-once job is committed with the offset of its record.
        place = f"[{delivery.partition}]@{delivery.offset}" if not job.exactly_once else " with its offset"
        log_and_emit(
            self._monitor,
            logger,
            logging.WARNING,
            "consumer.dead_letter",
            "%s[%d]@%d: written to %s%s after %s (%s: %s)",
            message.topic,
            message.partition,
            message.offset,
            delivery.topic,
            place,
            counted(attempts, "attempt"),
            kind,
            truncate(" ".join(text.split()), 200),
            fields={
                "handler": route.name,
                "topic": message.topic,
                "partition": message.partition,
                "offset": message.offset,
                "dead_letter": delivery.topic,
                "attempts": attempts,
                "group": self._groups[job.route],
            },
        )

    def forget_lane(self, lane: int) -> None:
        """Forgets pending deliveries of a lane that has ended, because no retry will ask for them."""
        for unit in [unit for unit in list(self._pending) if unit[0] == lane]:
            self._pending.pop(unit, None)

    def _produce(self, topic: str, job: Job, message: Message, *, with_text: bool) -> Delivery:
        producer = self._producer()
        if topic not in self._existing_topics:
            # A bounded wait: for a missing topic, `produce` itself would wait up to `max.block.ms`.
            producer.partitions(topic, _TIMEOUT)
            self._existing_topics.add(topic)
        whole = self._headers(job, message)
        timestamp = message.timestamp if message.timestamp >= 0 else None
        # Staged in the job: the dead letter and the offset of its record are committed together.
        produce = functools.partial(job.stage, producer) if job.exactly_once else producer.produce
        if with_text:
            try:
                return produce(topic, message.value, key=message.key, headers=whole, timestamp=timestamp)
            except RecordTooLargeError:
                pass
        slim: Headers = [(name, b"" if name == header_names.ERROR_MESSAGE else value) for name, value in whole]
        return produce(topic, message.value, key=message.key, headers=slim, timestamp=timestamp)

    def _wait_for_delivery(self, unit: tuple[int, int], delivery: Delivery) -> None:
        try:
            delivery.wait(_TIMEOUT)
        except TimeoutError:
            self._pending[unit] = delivery
            raise

    def _headers(self, job: Job, message: Message) -> Headers:
        """Returns the record's own headers, then those about the failure."""
        attempts, kind, text, first, last = _failure_of(job)
        ours = {
            header_names.SOURCE_TOPIC: message.topic,
            header_names.SOURCE_PARTITION: str(message.partition),
            header_names.SOURCE_OFFSET: str(message.offset),
            header_names.SOURCE_GROUP: self._groups[job.route],
            header_names.ATTEMPTS: str(attempts),
            header_names.ERROR_CLASS: kind,
            header_names.ERROR_MESSAGE: truncate(text, _MAX_HEADER_TEXT),
            header_names.FIRST_FAILED: _iso(first),
            header_names.LAST_FAILED: _iso(last),
        }
        own: Headers = [(name, value) for name, value in message.headers if name not in header_names.FAILURE_HEADERS]
        return own + [(name, value.encode("utf-8", "replace")) for name, value in ours.items()]


def _failure_of(job: Job) -> tuple[int, str, str, int, int]:
    failure = job.failure_history
    if failure is None:
        raise AssertionError(f"{job!r} does not say what has failed")
    return failure


def _iso(milliseconds: int) -> str:
    """Formats a time as ISO 8601, UTC, with milliseconds."""
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _remedy(topic: str, error: Exception) -> str:
    if isinstance(error, UnknownTopicError):
        return f"there is no such topic: create it (grete topics create {topic} --config retention.ms=-1)"
    if isinstance(error, RecordTooLargeError):
        return f"{error}; raise max.request.size in the App's kafka settings (and max.message.bytes of the topic)"
    if isinstance(error, DeliveryError) and error.name == "MESSAGE_TOO_LARGE":
        return f"{error}; raise max.message.bytes of the topic (message.max.bytes of the broker)"
    if isinstance(error, TimeoutError):
        return f"{error}; if it is still in flight, the next attempt waits for the same response"
    return f"{type(error).__name__}: {error}"
