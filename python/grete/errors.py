"""All errors that Grete raises. Rust raises these very classes."""

import builtins
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from grete._core import Deliveries
    from grete.client import Undelivered


class GreteError(Exception):
    """The base of all errors that Grete raises."""


class ConfigError(GreteError):
    """A setting that cannot be used. `setting` is its name as given, `origin` where it came from, where known."""

    def __init__(self, message: str, *, setting: str | None = None, origin: str | None = None) -> None:
        super().__init__(message)
        self.setting = setting
        self.origin = origin


class NotBuiltError(ConfigError):
    """A setting or feature that is planned and not there yet: refused by name, never ignored."""


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
