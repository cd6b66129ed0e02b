"""Protobuf messages: descriptors from files and registries, paths, and messages as dicts."""

import base64
import binascii
import datetime
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor, FileDescriptor
    from google.protobuf.descriptor_pb2 import FileDescriptorProto
    from google.protobuf.descriptor_pool import DescriptorPool
    from google.protobuf.message import Message

_KNOWN = ("google/protobuf/", "google/type/", "confluent/")


def is_known(file_name: str) -> bool:
    """Returns whether a file belongs to Protobuf or Confluent: each registry and each client has these."""
    return file_name.startswith(_KNOWN)


def schema_text(file: "FileDescriptor") -> str:
    """Returns a file as it is registered: its descriptor, in base64."""
    return base64.b64encode(file.serialized_pb).decode("ascii")


def parse_file(text: str, name: str) -> "FileDescriptorProto | None":
    """Returns the file that a registry sent, with this name; None if the text is the source of a .proto file."""
    from google.protobuf.descriptor_pb2 import FileDescriptorProto
    from google.protobuf.message import DecodeError

    try:
        file = FileDescriptorProto.FromString(base64.b64decode(text, validate=True))
    except (binascii.Error, DecodeError, ValueError):
        return None
    file.name = name
    return file


def message_path(descriptor: "Descriptor") -> tuple[int, ...]:
    """Returns which message of its file this is, which nested one in it, ..."""
    steps: list[int] = []
    while (outer := descriptor.containing_type) is not None:
        steps.insert(0, list(outer.nested_types).index(descriptor))
        descriptor = outer
    steps.insert(0, list(descriptor.file.message_types_by_name).index(descriptor.name))
    return tuple(steps)


def name_at(file: "FileDescriptorProto", path: Sequence[int]) -> str | None:
    """Returns the full name of the message at a path; None if there is none."""
    names = [file.package] if file.package else []
    messages: Any = file.message_type
    for index in path:
        if index >= len(messages):
            return None
        names.append(messages[index].name)
        messages = messages[index].nested_type
    return ".".join(names)


def path_of(file: "FileDescriptorProto", full_name: str) -> tuple[int, ...] | None:
    """Returns the path of a message in a file; None if it is not there."""
    prefix = f"{file.package}." if file.package else ""
    if not full_name.startswith(prefix):
        return None
    path: list[int] = []
    messages: Any = file.message_type
    for step in full_name.removeprefix(prefix).split("."):
        index = next((number for number, one in enumerate(messages) if one.name == step), None)
        if index is None:
            return None
        path.append(index)
        messages = messages[index].nested_type
    return tuple(path)


def new_pool(files: "Iterable[FileDescriptorProto]") -> "DescriptorPool":
    """Returns a pool with these files, dependencies first, and with the known files that they import."""
    from google.protobuf import descriptor_pool

    pool = descriptor_pool.DescriptorPool()
    known: set[str] = set()
    for file in files:
        if file.name in known:
            continue
        for name in file.dependency:
            if is_known(name):
                _add_known(pool, name, known)
        known.add(file.name)
        pool.Add(file)
    return pool


def _add_known(pool: "DescriptorPool", name: str, known: set[str]) -> None:
    """Adds a file that this program has compiled in, with its imports. Raises KeyError if it has not."""
    import importlib

    from google.protobuf import descriptor_pool
    from google.protobuf.descriptor_pb2 import FileDescriptorProto

    if name in known:
        return
    known.add(name)
    if name.startswith("google/protobuf/"):
        importlib.import_module(name.removesuffix(".proto").replace("/", ".") + "_pb2")
    found = descriptor_pool.Default().FindFileByName(name)
    for dependency in found.dependencies:
        _add_known(pool, dependency.name, known)
    file = FileDescriptorProto()
    found.CopyToProto(file)
    pool.Add(file)


def message_class(pool: "DescriptorPool", full_name: str) -> "type[Message]":
    """Returns the class of a message. Raises KeyError if the pool has none of that name."""
    from google.protobuf import message_factory

    found: type[Message] = message_factory.GetMessageClass(pool.FindMessageTypeByName(full_name))
    return found


def to_dict(message: "Message") -> dict[str, Any]:
    """Returns the fields of a message by name: enums as names, Timestamps as datetimes in UTC, Durations as timedeltas.

    Fields that are not set have their default; those that know whether they are set (messages, `optional`, one of a
    `oneof`) are left out.
    """
    found: dict[str, Any] = {}
    for field in message.DESCRIPTOR.fields:
        if field.has_presence and not message.HasField(field.name):
            continue
        value = getattr(message, field.name)
        inner = field.message_type
        if inner is not None and inner.GetOptions().map_entry:
            of_value = inner.fields_by_name["value"]
            found[field.name] = {key: _plain(of_value, value[key]) for key in value}
        elif _is_repeated(field):
            found[field.name] = [_plain(field, one) for one in value]
        else:
            found[field.name] = _plain(field, value)
    return found


def _is_repeated(field: Any) -> bool:
    repeated = getattr(field, "is_repeated", None)  # before protobuf 6: label
    return bool(field.label == field.LABEL_REPEATED if repeated is None else repeated)


def _plain(field: Any, value: Any) -> Any:
    if field.message_type is not None:
        name = field.message_type.full_name
        if name == "google.protobuf.Timestamp":
            return value.ToDatetime(tzinfo=datetime.UTC)
        if name == "google.protobuf.Duration":
            return value.ToTimedelta()
        return to_dict(value)
    if field.enum_type is not None:
        known = field.enum_type.values_by_number.get(value)
        return value if known is None else known.name
    return value


def from_dict(message: "type[Message]", fields: dict[str, Any]) -> "Message":
    """Returns the message with these fields, as `to_dict` returns them. Raises ValueError for a field that it does not
    have, TypeError for a value of another type.
    """
    made = message()
    _fill(made, fields)
    return made


def _fill(message: Any, fields: dict[str, Any]) -> None:
    by_name = message.DESCRIPTOR.fields_by_name
    for name, value in fields.items():
        field = by_name.get(name)
        if field is None:
            raise ValueError(f"{message.DESCRIPTOR.full_name} has no field {name}")
        if value is None:
            continue
        inner = field.message_type
        if inner is not None and inner.GetOptions().map_entry:
            _fill_map(getattr(message, name), inner.fields_by_name["value"], value)
        elif _is_repeated(field):
            _fill_list(getattr(message, name), field, value)
        elif inner is not None:
            target = getattr(message, name)
            target.SetInParent()
            _fill_message(target, value)
        else:
            setattr(message, name, _scalar(field, value))


def _fill_map(target: Any, field: Any, items: dict[Any, Any]) -> None:
    for key, value in items.items():
        if field.message_type is not None:
            _fill_message(target[key], value)
        else:
            target[key] = _scalar(field, value)


def _fill_list(target: Any, field: Any, items: Iterable[Any]) -> None:
    for value in items:
        if field.message_type is not None:
            _fill_message(target.add(), value)
        else:
            target.append(_scalar(field, value))


def _fill_message(target: Any, value: Any) -> None:
    if isinstance(value, datetime.datetime):
        target.FromDatetime(value)
    elif isinstance(value, datetime.timedelta):
        target.FromTimedelta(value)
    elif isinstance(value, dict):
        _fill(target, value)
    else:
        target.CopyFrom(value)


def _scalar(field: Any, value: Any) -> Any:
    if field.enum_type is not None and isinstance(value, str):
        known = field.enum_type.values_by_name.get(value)
        if known is None:
            raise ValueError(f"{field.full_name}: {field.enum_type.full_name} has no value {value}")
        return known.number
    return value
