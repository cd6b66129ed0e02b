"""Protobuf with a Schema Registry, with classes made by protoc or with descriptors, for reading and writing."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from grete._process import callsite
from grete.errors import ConfigError
from grete.payloads import protobuf_messages as messages
from grete.payloads.schema_registry import wire
from grete.payloads.schema_registry.cache import Cache
from grete.payloads.schema_registry.conversion import converter, plain_function, require_library
from grete.payloads.schema_registry.format import RegistryFormat
from grete.payloads.schema_registry.schemas import Reference, Schema, SchemaSource
from grete.payloads.schema_registry.subjects import SubjectName, SubjectStrategy
from grete.payloads.schema_registry.wire import SchemaId

if TYPE_CHECKING:
    from google.protobuf.descriptor import FileDescriptor
    from google.protobuf.descriptor_pb2 import FileDescriptorProto
    from google.protobuf.message import Message


class Protobuf(RegistryFormat):
    """Values or keys in Protobuf, with a Schema Registry: `grete.payloads.Protobuf(url, orders_pb2.Order)`.

    A payload is a message. The full name of the message is compared with the registry's, once for each schema, because
    the bytes alone do not show it. (A registry that does not know `format=serialized` cannot return it; then the bytes
    are believed.)

    Without a class made by protoc, messages are made from descriptors: those of a file, or the registry's. Writing
    needs a class, or `descriptors`, or `use_latest` or `id` of the registry.

    Args:
        registry: the registry's address, or a `grete.payloads.Registry`.
        message: the class made by protoc; or the full name of a message, like "shop.Order"; None: any message, as it is
            in the registry (reading only).
        type: converts each message to this type (a dict of its fields for `dict`), and back: a msgspec Struct, a
            dataclass, a TypedDict, a pydantic model.
        descriptors: file that `protoc --include_imports --descriptor_set_out=FILE` wrote, or its bytes; for `message`
            given by name.
        subject: "TopicName", "RecordName", "TopicRecordName", or a function of topic, part and record name. Imported
            files have their own names as subjects.
        auto_register: whether the first record registers a schema that is missing, with the files that it imports;
            `grete schemas register` does so before a deployment.
        use_latest: writes with the latest version in the registry, requested again every `latest_life`.
        id: writes with the schema of this id.
        normalize: compares and registers without regard to the order of elements.
        header: names the schema by its GUID in the record header `__value_schema_id` (or `__key_schema_id`), and not
            by its id before the data.
    """

    kind: ClassVar[str] = "PROTOBUF"
    title: ClassVar[str] = "Protobuf"
    form: ClassVar[str] = "serialized"

    def __init__(
        self,
        registry: str | Sequence[str] | SchemaSource,
        message: "type[Message] | str | None" = None,
        *,
        type: Any = None,  # noqa: A002
        descriptors: bytes | Path | None = None,
        subject: SubjectName | SubjectStrategy = "TopicName",
        auto_register: bool = False,
        use_latest: bool = False,
        id: int | None = None,  # noqa: A002
        normalize: bool = False,
        header: bool = False,
        latest_life: str | float = "5m",
    ) -> None:
        require_library("google.protobuf", "protobuf", "Protobuf")
        super().__init__(
            registry,
            subject=subject,
            auto_register=auto_register,
            use_latest=use_latest,
            id=id,
            normalize=normalize,
            header=header,
            latest_life=latest_life,
        )
        self._name = message if isinstance(message, str) else ""
        self._message = self._generated_class(message, descriptors)
        if self._message is not None:
            self._name = self._message.DESCRIPTOR.full_name
        self._type = type
        self._convert = _decode_conversion(type)
        self.output_type: Any = type if type is not None else (self._message or Any)
        self._classes = Cache(self._class_of)

    def check_writable(self) -> None:
        """Raises ConfigError if nothing says which schema is written."""
        if self._message is None and not self.options.use_latest and self.options.id is None:
            raise self._wrong(
                "encoding needs the message: give its class, or its name with descriptors=, use_latest=True or id=",
                "message",
            )
        if not self._name and self._type is not None:
            raise self._wrong(f'encoding {self._type} needs the name of the message, like "shop.Order"', "message")

    def types(self) -> Sequence[Any]:
        """Returns the declared class."""
        return () if self._message is None else (self._message,)

    def type_of(self, value: Any) -> Any:
        """Returns the full name of the message to write. Raises TypeError for another one."""
        descriptor = getattr(value, "DESCRIPTOR", None)
        if descriptor is None:
            if self._type is None and not isinstance(value, dict):
                raise TypeError(f"Protobuf writes {self._name or 'messages'}, not {value.__class__.__qualname__}")
            if not self._name:
                raise TypeError('Protobuf writes a dict if it has the name of the message, like "shop.Order"')
            return self._name
        if self._name and descriptor.full_name != self._name:
            raise TypeError(f"Protobuf writes {self._name}, not {descriptor.full_name}")
        return descriptor.full_name

    def record_name(self, wanted: Any) -> str:
        """Returns the full name of the message."""
        return wanted if isinstance(wanted, str) else self._name

    def declared_schema(self, wanted: Any, refer: Callable[[str, Schema], Schema]) -> tuple[str, Schema]:  # noqa: ARG002
        """Returns name and schema: the message's file, which refers to those that it imports."""
        assert self._message is not None  # `check_writable`
        return self._name, self._file_schema(self._message.DESCRIPTOR.file, refer)

    def encode_function(self, wanted: Any, schema: Schema) -> tuple[Callable[[Any], bytes], bytes]:
        """Returns the encoder of messages or objects of the declared type, and the message's path."""
        name = self.record_name(wanted)
        message = self._message
        if message is not None and not self.options.use_latest and self.options.id is None:
            return self._serializer(message), wire.encode_path(messages.message_path(message.DESCRIPTOR))
        file = messages.parse_file(schema.text, "default")
        if file is None:
            raise ValueError(f"the schema registry has schema {schema.id} as text only: give the class")
        path = messages.path_of(file, name)
        if path is None:
            raise ValueError(f"schema {schema.id} of the schema registry has no message {name}")
        if message is None:
            message = messages.message_class(self._pool(schema, file), name)
        return self._serializer(message), wire.encode_path(path)

    def decode(self, schema_id: SchemaId, data: bytes) -> Any:
        """Decodes data that was written with a schema."""
        path, start = wire.read_path(data)
        message = self._classes((schema_id, path)).FromString(data[start:])
        return message if self._convert is None else self._convert(message)

    def _serializer(self, message: "type[Message]") -> Callable[[Any], bytes]:
        plain = None if self._type is None or self._type is dict else plain_function(self._type, "Protobuf")

        def serialize(value: Any) -> bytes:
            if not hasattr(value, "DESCRIPTOR"):
                fields = value if plain is None or isinstance(value, dict) else plain(value)
                value = messages.from_dict(message, fields)
            data: bytes = value.SerializeToString()
            return data

        return serialize

    def _class_of(self, key: tuple[SchemaId, tuple[int, ...]]) -> "type[Message]":
        """Returns the class of the message at that path of the schema."""
        schema_id, path = key
        schema = self.fetch(schema_id)
        file = messages.parse_file(schema.text, "default")
        if file is None:  # the text of a .proto file
            if self._message is None:
                raise ValueError(f"the schema registry has schema {schema_id} as text only: give the class")
            return self._message
        name = messages.name_at(file, path)
        if name is None:
            raise ValueError(f"schema {schema_id} has no message at {list(path)}")
        if self._name and name != self._name:
            raise ValueError(f"the value is a {name} (schema {schema_id}), not a {self._name}")
        return self._message or messages.message_class(self._pool(schema, file), name)

    def _pool(self, schema: Schema, file: "FileDescriptorProto") -> Any:
        """Returns a pool of a registered schema's file and those that it refers to."""
        return messages.new_pool([*self._referenced_files(schema, set()), file])

    def _referenced_files(self, schema: Schema, known: set[str]) -> "Iterator[FileDescriptorProto]":
        """Yields the files that a schema refers to, dependencies first."""
        for reference in schema.references:
            if reference.name in known or messages.is_known(reference.name):
                continue
            known.add(reference.name)
            found = self.registry.version(reference.subject, reference.version, "serialized")
            yield from self._referenced_files(found, known)
            file = messages.parse_file(found.text, reference.name)
            if file is None:
                raise ValueError(f"the schema registry has {reference.name} as text only: give the class")
            yield file

    def _file_schema(self, file: "FileDescriptor", refer: Callable[[str, Schema], Schema]) -> Schema:
        references = []
        for imported in file.dependencies:
            if messages.is_known(imported.name):
                continue
            found = refer(imported.name, self._file_schema(imported, refer))
            references.append(Reference(imported.name, imported.name, found.version or 1))
        return Schema(messages.schema_text(file), "PROTOBUF", tuple(references))

    def _generated_class(
        self, message: "type[Message] | str | None", descriptors: bytes | Path | None
    ) -> "type[Message] | None":
        from google.protobuf.message import Message

        if message is None or isinstance(message, str):
            if descriptors is None:
                return None
            if not message:
                raise self._wrong('descriptors= needs the name of the message, like "shop.Order"', "message")
            return self._described_class(message, descriptors)
        if not isinstance(message, type) or not issubclass(message, Message):
            raise ConfigError(
                f"payloads.Protobuf takes the class that protoc made of a message, or its full name, not {message!r}",
                setting="payload",
                location=callsite.caller_location(),
            )
        if descriptors is not None:
            raise self._wrong("descriptors= goes with the name of a message, and this is its class", "descriptors")
        return message

    def _described_class(self, name: str, descriptors: bytes | Path) -> "type[Message]":
        from google.protobuf.descriptor_pb2 import FileDescriptorSet
        from google.protobuf.message import DecodeError

        try:
            files = FileDescriptorSet.FromString(
                descriptors if isinstance(descriptors, bytes) else Path(descriptors).read_bytes()
            ).file
            return messages.message_class(messages.new_pool(files), name)
        except OSError as error:
            raise self._wrong(f"descriptors={str(descriptors)!r}: {error.strerror}", "descriptors") from None
        except DecodeError:
            raise self._wrong(
                "descriptors= is no descriptor set: make it with protoc --include_imports --descriptor_set_out=FILE",
                "descriptors",
            ) from None
        except (KeyError, TypeError) as error:
            raise self._wrong(
                f"descriptors= has no message {name}, or not the files that it imports ({error}): use "
                "protoc --include_imports",
                "descriptors",
            ) from None


def _decode_conversion(wanted: Any) -> Callable[[Any], Any] | None:
    """Returns the conversion of a message to the declared type; None: the message is the payload."""
    if wanted is None:
        return None
    convert = None if wanted is dict else converter(wanted, "Protobuf")
    if convert is None:
        return messages.to_dict
    return lambda message: convert(messages.to_dict(message))
