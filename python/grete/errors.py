"""Errors that Grete raises. Rust raises these very classes."""

import builtins
from typing import TYPE_CHECKING

from grete import _units
from grete._process import callsite

if TYPE_CHECKING:
    from grete._native import Deliveries, Message
    from grete.client import Undelivered


class GreteError(Exception):
    """Base class of all errors that Grete raises. `help` is the command that prints cause, cure and an example."""

    @property
    def help(self) -> str:
        """Command that explains the class, like "grete explain TlsError"; docs/errors has the same texts."""
        name = next(one.__name__ for one in type(self).__mro__ if one.__module__.partition(".")[0] == "grete")
        return f"grete explain {name}"


class ConfigError(GreteError):
    """A setting that cannot be used. `setting` is its name as given, `origin` its source, where known.

    `location` is the "file:line" of a wrong declaration, if the setting is in one; the message begins with it.
    """

    def __init__(
        self, message: str, *, setting: str | None = None, origin: str | None = None, location: str | None = None
    ) -> None:
        super().__init__(f"{location}: {message}" if location else message)
        self.setting = setting
        self.origin = origin
        self.location = location


class NotSupportedError(ConfigError):
    """A setting or feature that is not implemented yet, or not on this system. It is refused, never ignored."""


class UnknownEventError(GreteError):
    """A subscription names an event that does not exist; the message suggests a similar name."""


class PreloadError(GreteError):
    """A function of `@app.preload` failed, where and why; its exception is the cause."""


class LifecycleError(GreteError):
    """A function of `@app.on_startup`, `@app.on_shutdown` or `lifespan=` failed; its exception is the cause.

    `hook` is the name of the function, and `location` the "file:line" of its declaration.
    """

    def __init__(self, message: str, *, hook: str, location: str) -> None:
        super().__init__(message)
        self.hook = hook
        self.location = location


class StartupError(LifecycleError):
    """A function of `@app.on_startup`, or the first part of `lifespan=`, failed: the App does not start."""


class ShutdownError(LifecycleError):
    """A function of `@app.on_shutdown`, or the last part of `lifespan=`, failed or did not end in time."""


class NotForkableError(GreteError):
    """Threads run, or clients are open, that would not survive the fork of a swarm's nodes."""


class ForkedClientError(GreteError):
    """A client that was made before a fork is used in the child: make clients after the fork."""


class HostLoopError(GreteError):
    """The event loop of an App's host process was closed, or ended, while handlers needed it."""


class ClosedError(GreteError):
    """A handle is used after it was closed."""


class TimeoutError(GreteError, builtins.TimeoutError):  # noqa: A001
    """A call had no response in time. It is the built-in `TimeoutError`, too."""


class BrokerError(GreteError):
    """Embedded brokers cannot start, have ended by themselves, or cannot do what was requested."""


class KafkaError(GreteError):
    """A broker responded with an error. `code` is Kafka's number for it, `name` Kafka's name."""

    def __init__(self, message: str, *, code: int, name: str) -> None:
        super().__init__(message)
        self.code = code
        self.name = name


class NotKafkaError(GreteError):
    """The server at a bootstrap address does not speak Kafka."""


class TlsError(GreteError):
    """No encrypted connection to a bootstrap address can be made. The message has the cure.

    `reason` is one word: "not_tls", "closed_at_hello", "wrong_name", "unknown_ca", "expired", "not_yet_valid",
    "revoked", "bad_certificate", "certificate_required", "certificate_refused", "nothing_in_common", or "protocol".
    """

    def __init__(self, message: str, *, reason: str) -> None:
        super().__init__(message)
        self.reason = reason


class AuthenticationError(GreteError):
    """The brokers refuse the client's login, or offer none: wrong password or mechanism, expired token, or a listener
    without SASL. The message names the setting to change.
    """


class AuthorizationError(GreteError):
    """A broker refused the operation to this user."""


class CorruptBatchError(GreteError):
    """A record batch that stays unreadable after it was fetched again; its partition stops there."""

    def __init__(self, message: str, *, topic: str, partition: int, offset: int) -> None:
        super().__init__(message)
        self.topic = topic
        self.partition = partition
        self.offset = offset


class GroupError(GreteError):
    """The group coordinator refused this member."""


class FencedInstanceError(GroupError):
    """Another member of `group` has joined with this member's `group.instance.id` (`instance`) and fenced it for good.

    Only one process at a time may have an id: stop the other one, or give each its own id.
    """

    def __init__(self, message: str, *, group: str, instance: str) -> None:
        super().__init__(message)
        self.group = group
        self.instance = instance


class DecodeError(GreteError):
    """A record's value does not fit the route's payload; the decoder's own error is the cause.

    `topic`, `partition` and `offset` identify the record, and `message` is the record itself, where known. Like any
    other failure it is retried and dead-lettered, and only that record is.
    """

    def __init__(self, text: str, *, topic: str, partition: int, offset: int, message: "Message | None" = None) -> None:
        super().__init__(text)
        self.topic = topic
        self.partition = partition
        self.offset = offset
        self.message = message


class EncodeError(GreteError):
    """A value or key cannot be written to a topic: it has another type than the topic declares, or no encoded form.

    `topic` is the record's destination, `part` is "value" or "key", `type` the type that was given, `field` the path of
    a field that has no encoded form, like "lines[3].price" (None: unknown). The encoder's own error, if there is one,
    is the cause. In a handler it is a failure like any other.
    """

    def __init__(
        self,
        message: str,
        *,
        topic: str,
        part: str,
        type: type,  # noqa: A002
        field: str | None = None,
    ) -> None:
        super().__init__(message)
        self.topic = topic
        self.part = part
        self.type = type
        self.field = field


class BatchResultError(GreteError):
    """The handler of a batch returned what cannot belong to its records: another number of values, or no list.

    `handler` is its name, `expected` the number of records, `got` the number of values (None: no list). No record is
    at fault, and none would be found by trying fewer of them: all records of the batch go to the dead letter topic at
    once.
    """

    def __init__(self, message: str, *, handler: str, expected: int, got: int | None) -> None:
        super().__init__(message)
        self.handler = handler
        self.expected = expected
        self.got = got


class NoPayloadError(GreteError, AttributeError):
    """`payload` of a message that has no decoder: the message was not read by a route, or the route has no
    `payload=`.
    """


class Reject(GreteError):  # noqa: N818
    """Raise it in a handler when further attempts are useless: the record goes to the dead letter topic at once.

    `message` names the record. By default it is the record that an unfinished `for message in self.messages` handed out
    last, or the only one. A route without a dead letter topic tries again at its longest wait: nothing is skipped.
    """

    def __init__(self, reason: str, message: "Message | None" = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.message = message


class RetryLater(GreteError):  # noqa: N818
    """Raise it in a handler to run the job again `delay` ("5m", or seconds) from now. It does not count as an attempt.

    Records that the job has marked stay marked. The partition (or the key's slot) waits, and others go on.
    """

    def __init__(self, delay: str | float, reason: str = "") -> None:
        try:
            self.delay: float = _units.seconds(delay)
        except ValueError as error:
            raise ConfigError(
                f"RetryLater({delay!r}): {error}", setting="delay", location=callsite.caller_location()
            ) from None
        self.reason = reason
        super().__init__(f"again in {self.delay:g} s" + (f": {reason}" if reason else ""))


class RevokedError(GreteError):
    """The partition no longer belongs to this job: it was revoked, or its position was moved. Nothing can be marked.

    Records that the job had not marked by then are processed again, by the present owner of the partition.
    """


class DeadLetterError(GreteError):
    """A record could not be written to the dead letter topic. It is tried again, and its partition waits that long.

    `dead_letter` is the topic that refused it; `topic`, `partition` and `offset` locate the record.
    """

    def __init__(self, text: str, *, dead_letter: str, topic: str, partition: int, offset: int) -> None:
        super().__init__(text)
        self.dead_letter = dead_letter
        self.topic = topic
        self.partition = partition
        self.offset = offset


class PartitionFailedError(GreteError):
    """A partition cannot be read, and the App ends because of it: `on_failed_partition="stop"`.

    `topic` and `partition` identify it; `reason` is one word: see docs/failed-partitions.md.
    """

    def __init__(self, message: str, *, topic: str, partition: int, reason: str) -> None:
        super().__init__(message)
        self.topic = topic
        self.partition = partition
        self.reason = reason


class NotAssignedError(GreteError):
    """The partition is not assigned here: another member of the group has it, or none has."""

    def __init__(self, message: str, *, topic: str, partition: int) -> None:
        super().__init__(message)
        self.topic = topic
        self.partition = partition


class OffsetError(GreteError):
    """A partition has no valid offset to read from, and `auto.offset.reset` is "none"."""


class BufferFullError(GreteError):
    """`buffer.memory` stayed full for `max.block.ms`: records arrive faster than brokers take them, or no broker takes
    any.

    `deliveries`: the records that `produce_many` had taken by then; None if there are none.
    """

    deliveries: "Deliveries | None" = None


class DeliveryError(GreteError):
    """A record was not acknowledged. `outcome` is "not_written", "unknown", or "aborted" (AbortedDeliveryError).

    `topic` and `partition` (None: not chosen yet) are its destination, `code` and `name` the broker's response (None:
    no broker responded). Records with an unknown outcome are never retried under a new identity: only the caller can
    know whether a duplicate is worse than a loss.
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


class AbortedDeliveryError(DeliveryError):
    """A record whose transaction was aborted. `outcome` is "aborted".

    A broker may have the record, and readers with `isolation.level=read_committed` never see it. Run the transaction
    again.
    """


class TransactionError(GreteError):
    """Base class of the errors of transactions. Raised itself, it means that the producer can have no more of them:
    make a new producer.

    `code` and `name` are a broker's response; None: no broker responded with an error.
    """

    def __init__(self, message: str, *, code: int | None = None, name: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.name = name


class TransactionAbortedError(TransactionError):
    """The transaction was aborted, or can only be aborted: nothing of it is committed. Run it again.

    The message has the cause: a record that was not delivered, a rebalance of the group, an error of a broker.
    """


class FencedError(TransactionError):
    """Another producer with the same `transactional.id` has taken over, or the coordinator has aborted a transaction
    that was open for longer than `transaction.timeout.ms`. The producer cannot be used any more.

    Only one process at a time may use an id: stop one of the two, or give each its own id.
    """


class CommitUnknownError(TransactionError):
    """Whether the transaction was committed is not known: the answer was lost, and the coordinator knows no more.

    Read the topics with `isolation.level=read_committed` before the work is done again.
    """


class TransactionStateError(TransactionError):
    """The call does not fit the producer's transaction: none is open, one is open already, or the producer has no
    `transactional.id`. The message has the cure.
    """


class UndeliveredError(GreteError):
    """A producer was closed and records were not delivered. `undelivered` is the report that `close` returns."""

    def __init__(self, message: str, *, undelivered: "Undelivered") -> None:
        super().__init__(message)
        self.undelivered = undelivered


class RecordTypeError(GreteError, TypeError):
    """A value given for a record has a type that cannot be sent. `topic` is the record's destination.

    `index`: of the record among those of `produce_many`, from 0; None: a single record, or all.
    """

    def __init__(self, message: str, *, topic: str | None = None, index: int | None = None) -> None:
        super().__init__(message)
        self.topic = topic
        self.index = index


class RecordTooLargeError(GreteError, ValueError):
    """A record is larger than `max.request.size` allows. `topic` is its destination.

    `index`: of the record among those of `produce_many`, from 0; None: a single record.
    """

    def __init__(self, message: str, *, topic: str | None = None, index: int | None = None) -> None:
        super().__init__(message)
        self.topic = topic
        self.index = index


class UnknownTopicError(KafkaError):
    """The topic does not exist, according to the brokers. `topic` is its name.

    `partition`: the number of a partition that the topic does not have; None: the topic itself does not exist.
    """

    def __init__(
        self,
        message: str,
        *,
        code: int = 3,
        name: str = "UNKNOWN_TOPIC_OR_PARTITION",
        topic: str,
        partition: int | None = None,
    ) -> None:
        super().__init__(message, code=code, name=name)
        self.topic = topic
        self.partition = partition


class UnknownTopicDeliveryError(DeliveryError, UnknownTopicError):
    """A record of a topic that does not exist was not written: `produce` in an event loop does not wait for metadata.

    `partition`: the number of a partition that the topic does not have; None: the topic itself does not exist.
    """

    topic: str
    code: int
    name: str

    def __init__(
        self,
        message: str,
        *,
        topic: str,
        partition: int | None = None,
        outcome: str = "not_written",
        code: int = 3,
        name: str = "UNKNOWN_TOPIC_OR_PARTITION",
    ) -> None:
        Exception.__init__(self, message)
        self.topic = topic
        self.partition = None if partition == -1 else partition
        self.outcome = outcome
        self.code = code
        self.name = name


class TopicExistsError(KafkaError):
    """A topic of that name exists already. `topic` is its name."""

    def __init__(self, message: str, *, code: int = 36, name: str = "TOPIC_ALREADY_EXISTS", topic: str) -> None:
        super().__init__(message, code=code, name=name)
        self.topic = topic


class UnknownGroupError(KafkaError):
    """The group does not exist. `group` is its id."""

    def __init__(self, message: str, *, code: int = 69, name: str = "GROUP_ID_NOT_FOUND", group: str) -> None:
        super().__init__(message, code=code, name=name)
        self.group = group


class GroupNotEmptyError(KafkaError):
    """The operation requires a group without members (or without members that read the topic)."""

    def __init__(self, message: str, *, code: int = 68, name: str = "NON_EMPTY_GROUP", group: str) -> None:
        super().__init__(message, code=code, name=name)
        self.group = group


class PartialResultError(GreteError):
    """Some brokers did not respond. `partial` has the results of the others; the error of the first is the cause."""

    def __init__(self, message: str, *, partial: object) -> None:
        super().__init__(message)
        self.partial = partial


class RegistryError(GreteError):
    """A Schema Registry refused a request, or its response is not one of a Schema Registry.

    `status` is the HTTP status (None: the response was malformed), `code` the registry's error code (like 42201: the
    schema is invalid), `subject` the subject of the request, where there is one.
    """

    def __init__(
        self, message: str, *, status: int | None = None, code: int | None = None, subject: str | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.subject = subject


class SchemaNotFoundError(RegistryError, LookupError):
    """The Schema Registry does not have the schema, the version or the subject."""


class IncompatibleSchemaError(RegistryError):
    """The Schema Registry refused a schema, because it contradicts earlier versions of its subject."""
