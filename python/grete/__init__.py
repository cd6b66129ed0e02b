"""Framework that runs Python code on Kafka topics, fast on the wire and safe with offsets.

The import starts nothing: no thread, no socket, no file descriptor. Each name is imported when it is first used, so
that a command or a program pays only for the parts that it uses.
"""

# As type checkers know it from `typing`, of which the import takes longer than all others here. It is not written as
# `False`, because jedi would take the imports below for code that never runs.
TYPE_CHECKING = bool()  # noqa: UP018

if TYPE_CHECKING:
    from grete import asgi, client, instrumentation, payloads
    from grete._native import Message, Messages, __version__
    from grete.app import App
    from grete.consumer import Consumer
    from grete.errors import (
        AbortedDeliveryError,
        AuthenticationError,
        AuthorizationError,
        BatchResultError,
        BrokerError,
        BufferFullError,
        ClosedError,
        CommitUnknownError,
        ConfigError,
        CorruptBatchError,
        DeadLetterError,
        DecodeError,
        DeliveryError,
        EncodeError,
        FencedError,
        FencedInstanceError,
        ForkedClientError,
        GreteError,
        GroupError,
        GroupNotEmptyError,
        HostLoopError,
        IncompatibleSchemaError,
        KafkaError,
        LifecycleError,
        NoPayloadError,
        NotAssignedError,
        NotForkableError,
        NotKafkaError,
        NotSupportedError,
        OffsetError,
        PartialResultError,
        PartitionFailedError,
        PreloadError,
        RecordTooLargeError,
        RecordTypeError,
        RegistryError,
        Reject,
        RetryLater,
        RevokedError,
        SchemaNotFoundError,
        ShutdownError,
        StartupError,
        TimeoutError,  # noqa: A004
        TlsError,
        TopicExistsError,
        TransactionAbortedError,
        TransactionError,
        TransactionStateError,
        UndeliveredError,
        UnknownEventError,
        UnknownGroupError,
        UnknownTopicDeliveryError,
        UnknownTopicError,
    )
    from grete.parameters import Attempt, Batch, Context, Depends, Headers, Key, Offset
    from grete.producer import Producer
    from grete.retry import Retry
    from grete.topic import Record, Topic

__all__ = [
    "AbortedDeliveryError",
    "App",
    "Attempt",
    "AuthenticationError",
    "AuthorizationError",
    "Batch",
    "BatchResultError",
    "BrokerError",
    "BufferFullError",
    "ClosedError",
    "CommitUnknownError",
    "ConfigError",
    "Consumer",
    "Context",
    "CorruptBatchError",
    "DeadLetterError",
    "DecodeError",
    "DeliveryError",
    "Depends",
    "EncodeError",
    "FencedError",
    "FencedInstanceError",
    "ForkedClientError",
    "GreteError",
    "GroupError",
    "GroupNotEmptyError",
    "Headers",
    "HostLoopError",
    "IncompatibleSchemaError",
    "KafkaError",
    "Key",
    "LifecycleError",
    "Message",
    "Messages",
    "NoPayloadError",
    "NotAssignedError",
    "NotForkableError",
    "NotKafkaError",
    "NotSupportedError",
    "Offset",
    "OffsetError",
    "PartialResultError",
    "PartitionFailedError",
    "PreloadError",
    "Producer",
    "Record",
    "RecordTooLargeError",
    "RecordTypeError",
    "RegistryError",
    "Reject",
    "Retry",
    "RetryLater",
    "RevokedError",
    "SchemaNotFoundError",
    "ShutdownError",
    "StartupError",
    "TimeoutError",
    "TlsError",
    "Topic",
    "TopicExistsError",
    "TransactionAbortedError",
    "TransactionError",
    "TransactionStateError",
    "UndeliveredError",
    "UnknownEventError",
    "UnknownGroupError",
    "UnknownTopicDeliveryError",
    "UnknownTopicError",
    "__version__",
    "asgi",
    "client",
    "instrumentation",
    "payloads",
]

if not TYPE_CHECKING:  # a type checker that saw it would accept any name
    _PLACES = {
        "App": "grete.app",
        "Consumer": "grete.consumer",
        "Message": "grete._native",
        "Messages": "grete._native",
        "Producer": "grete.producer",
        "Record": "grete.topic",
        "Retry": "grete.retry",
        "Topic": "grete.topic",
        **dict.fromkeys(("Attempt", "Batch", "Context", "Depends", "Headers", "Key", "Offset"), "grete.parameters"),
        "__version__": "grete._native",
    }
    _MODULES = ("asgi", "client", "instrumentation", "payloads")

    def __getattr__(name: str) -> object:
        """Imports a public name when it is first used."""
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        if name in _MODULES:
            return import_module(f"grete.{name}")
        value = getattr(import_module(_PLACES.get(name, "grete.errors")), name)
        globals()[name] = value
        return value

    def __dir__() -> list[str]:
        """Returns the public names, imported or not."""
        return sorted({*globals(), *__all__})
