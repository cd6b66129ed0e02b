"""All errors that Grete raises. Rust raises these very classes."""

import builtins
from typing import TYPE_CHECKING

from grete import _place, units

if TYPE_CHECKING:
    from grete._core import Deliveries, Message
    from grete.client import Undelivered


class GreteError(Exception):
    """The base of all errors that Grete raises."""


class ConfigError(GreteError):
    """A setting that cannot be used. `setting` is its name as given, `origin` where it came from, where known.

    `location` is the "file:line" of the declaration that is wrong, where it is one; the message begins with it.
    """

    def __init__(
        self, message: str, *, setting: str | None = None, origin: str | None = None, location: str | None = None
    ) -> None:
        super().__init__(f"{location}: {message}" if location else message)
        self.setting = setting
        self.origin = origin
        self.location = location


class NotBuiltError(ConfigError):
    """A setting or feature that is planned and not there yet: refused by name, never ignored."""


class UnknownEventError(GreteError):
    """Nothing is called so that one could listen to; the message says what is called nearly so."""


class PreloadError(GreteError):
    """A function of `@app.preload` failed, where and why; what it raised is the cause."""


class NotForkableError(GreteError):
    """Threads run, or clients are open, that would not survive the fork of a swarm's nodes."""


class ForkedClientError(GreteError):
    """A client that was made before a fork is used in the child: make clients after the fork."""


class ClosedError(GreteError):
    """A handle is used after it was closed."""


class TimeoutError(GreteError, builtins.TimeoutError):  # noqa: A001
    """A call had no answer in time. It is the built-in `TimeoutError`, too."""


class KafkaError(GreteError):
    """A broker answered with an error. `code` is Kafka's number for it, `name` Kafka's name."""

    def __init__(self, message: str, *, code: int, name: str) -> None:
        super().__init__(message)
        self.code = code
        self.name = name


class NotKafkaError(GreteError):
    """What answers at the bootstrap addresses does not speak Kafka."""


class AuthorizationError(GreteError):
    """A broker refused who we are, or what we want to do."""


class CorruptBatchError(GreteError):
    """A record batch that stays unreadable after it was fetched again; its partition stops there."""

    def __init__(self, message: str, *, topic: str, partition: int, offset: int) -> None:
        super().__init__(message)
        self.topic = topic
        self.partition = partition
        self.offset = offset


class GroupError(GreteError):
    """The group coordinator will not have this member."""


class FencedInstanceError(GroupError):
    """Another member of `group` has joined with this one's `group.instance.id` (`instance`): this one is out for good.

    Only one process at a time may have an id: stop the other one, or give each an id of its own.
    """

    def __init__(self, message: str, *, group: str, instance: str) -> None:
        super().__init__(message)
        self.group = group
        self.instance = instance


class DecodeError(GreteError):
    """A record's value is not what the route's payload says; the decoder's own error is the cause.

    `topic`, `partition` and `offset` say which record, `message` is it, where known. It is retried and dead-lettered
    like any other failure, and only that record is.
    """

    def __init__(self, text: str, *, topic: str, partition: int, offset: int, message: "Message | None" = None) -> None:
        super().__init__(text)
        self.topic = topic
        self.partition = partition
        self.offset = offset
        self.message = message


class NoPayloadError(GreteError, AttributeError):
    """`payload` of a message that has no decoder: it was not read by a route, or the route has no `payload=`."""


class Reject(GreteError):  # noqa: N818
    """Raise it in a handler: no further attempt is worth it, the record goes to the dead letter topic at once.

    `message` names the record; without it, it is the one that an unfinished `for message in self.messages` handed out
    last, or the only one. A route without a dead letter topic tries again at its longest wait: nothing is skipped.
    """

    def __init__(self, reason: str, message: "Message | None" = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.message = message


class RetryLater(GreteError):  # noqa: N818
    """Raise it in a handler: not now, but `delay` ("5m", or seconds) from now. It does not count as an attempt.

    What the job has marked stays marked; the partition (or the key's slot) waits, the others go on.
    """

    def __init__(self, delay: str | float, reason: str = "") -> None:
        try:
            self.delay: float = units.seconds(delay)
        except ValueError as error:
            raise ConfigError(f"RetryLater({delay!r}): {error}", setting="delay", location=_place.caller()) from None
        self.reason = reason
        super().__init__(f"again in {self.delay:g} s" + (f": {reason}" if reason else ""))


class RevokedError(GreteError):
    """The partition is not this job's any more: it was taken away, or its position was moved. Nothing can be marked.

    What the job had not marked by then is processed again, by whoever has the partition now.
    """


class DeadLetterError(GreteError):
    """A record did not get into the dead letter topic; it is tried again, and its partition waits that long.

    `dead_letter` is the topic that did not take it; `topic`, `partition` and `offset` say where the record lies.
    """

    def __init__(self, text: str, *, dead_letter: str, topic: str, partition: int, offset: int) -> None:
        super().__init__(text)
        self.dead_letter = dead_letter
        self.topic = topic
        self.partition = partition
        self.offset = offset


class OffsetError(GreteError):
    """A partition has no valid offset to read from, and `auto.offset.reset` is "none"."""


class QueueFull(GreteError):  # noqa: N818
    """`buffer.memory` stayed full for `max_block`: records come faster than brokers take them, or no broker takes any.

    `deliveries`: what `produce_many` had taken by then, None if nothing.
    """

    deliveries: "Deliveries | None" = None


class DeliveryError(GreteError):
    """A record was not acknowledged. `outcome` says what is known of it: "not_written", or "unknown".

    `topic` and `partition` (None: it got none) say where it was going, `code` and `name` what a broker answered (None:
    none did). Unknown outcomes are never retried under a new identity: only the caller can know whether twice is worse
    than not at all.
    """

    def __init__(
        self,
        message: str,
        *,
        topic: str,
        partition: int | None = None,
        outcome: str = "not_written",
        code: int | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(message)
        self.topic = topic
        self.partition = partition
        self.outcome = outcome
        self.code = code
        self.name = name


class UndeliveredError(GreteError):
    """A producer was closed and records were not delivered. `undelivered` is the report that `close` returns."""

    def __init__(self, message: str, *, undelivered: "Undelivered") -> None:
        super().__init__(message)
        self.undelivered = undelivered


class RecordTypeError(GreteError, TypeError):
    """Something given for a record is not of a type that can be sent. `topic` is where it was going."""

    def __init__(self, message: str, *, topic: str | None = None) -> None:
        super().__init__(message)
        self.topic = topic


class RecordTooLargeError(GreteError, ValueError):
    """A record is larger than `max.request.size` allows. `topic` is where it was going."""

    def __init__(self, message: str, *, topic: str | None = None) -> None:
        super().__init__(message)
        self.topic = topic


class UnknownTopicError(KafkaError):
    """There is no such topic, as far as the brokers say. `topic` is its name."""

    def __init__(self, message: str, *, code: int = 3, name: str = "UNKNOWN_TOPIC_OR_PARTITION", topic: str) -> None:
        super().__init__(message, code=code, name=name)
        self.topic = topic


class TopicExistsError(KafkaError):
    """A topic of that name is there already. `topic` is its name."""

    def __init__(self, message: str, *, code: int = 36, name: str = "TOPIC_ALREADY_EXISTS", topic: str) -> None:
        super().__init__(message, code=code, name=name)
        self.topic = topic


class UnknownGroupError(KafkaError):
    """There is no such group. `group` is its id."""

    def __init__(self, message: str, *, code: int = 69, name: str = "GROUP_ID_NOT_FOUND", group: str) -> None:
        super().__init__(message, code=code, name=name)
        self.group = group


class GroupNotEmptyError(KafkaError):
    """What was asked for is only possible while the group has no members (or none that reads the topic)."""

    def __init__(self, message: str, *, code: int = 68, name: str = "NON_EMPTY_GROUP", group: str) -> None:
        super().__init__(message, code=code, name=name)
        self.group = group


class PartialResultError(GreteError):
    """Some brokers did not answer. `partial` is what the others said; the error of the first is the cause."""

    def __init__(self, message: str, *, partial: object) -> None:
        super().__init__(message)
        self.partial = partial
