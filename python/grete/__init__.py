"""Grete runs Python code on Kafka topics: fast at the wire, safe with offsets, and well looked after.

Importing it starts nothing: no thread, no socket, no file descriptor.
"""

from grete import asgi, client, payloads
from grete._core import Message, Messages, __version__
from grete.app import App
from grete.consumer import Consumer
from grete.errors import (
    AuthorizationError,
    ClosedError,
    ConfigError,
    CorruptBatchError,
    DeadLetterError,
    DecodeError,
    DeliveryError,
    ForkedClientError,
    GreteError,
    GroupError,
    GroupNotEmptyError,
    KafkaError,
    NoPayloadError,
    NotBuiltError,
    NotForkableError,
    NotKafkaError,
    OffsetError,
    PartialResultError,
    PreloadError,
    QueueFull,
    RecordTooLargeError,
    RecordTypeError,
    Reject,
    RetryLater,
    RevokedError,
    TimeoutError,  # noqa: A004
    TopicExistsError,
    UndeliveredError,
    UnknownGroupError,
    UnknownTopicError,
)
from grete.retry import Retry

__all__ = [
    "App",
    "AuthorizationError",
    "ClosedError",
    "ConfigError",
    "Consumer",
    "CorruptBatchError",
    "DeadLetterError",
    "DecodeError",
    "DeliveryError",
    "ForkedClientError",
    "GreteError",
    "GroupError",
    "GroupNotEmptyError",
    "KafkaError",
    "Message",
    "Messages",
    "NoPayloadError",
    "NotBuiltError",
    "NotForkableError",
    "NotKafkaError",
    "OffsetError",
    "PartialResultError",
    "PreloadError",
    "QueueFull",
    "RecordTooLargeError",
    "RecordTypeError",
    "Reject",
    "Retry",
    "RetryLater",
    "RevokedError",
    "TimeoutError",
    "TopicExistsError",
    "UndeliveredError",
    "UnknownGroupError",
    "UnknownTopicError",
    "__version__",
    "asgi",
    "client",
    "payloads",
]
