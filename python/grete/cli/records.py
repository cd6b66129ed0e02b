"""Records from lines, files and JSON, in portions that are sent at once."""

import base64
import binascii
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click

# What one read brings at most; of a pipe it returns what is there, so that a slow writer's lines do not wait.
_AT_ONCE = 1 << 20
# No broker takes a record of this size: who sends one long line has most likely no lines at all.
LONGEST = 64 << 20

Headers = Sequence[tuple[str, bytes | None]]
# What Producer.produce_many takes: a value, or more of a record.
Record = bytes | None | tuple[bytes | None, bytes | None, Headers, int | None]


@dataclass(frozen=True)
class Portion:
    """Records that are sent at once, all to one partition or wherever their keys say."""

    records: Sequence[Record]
    partition: int | None
    # Where the record of this index came from.
    place: Callable[[int], str]


@dataclass(frozen=True)
class Shape:
    """How a line or a file becomes a record."""

    key: bytes | None = None
    key_separator: bytes | None = None
    null_value: bytes | None = None
    headers: Headers = field(default=())
    partition: int | None = None
    as_json: bool = False
    keep_partitions: bool = False

    def portions(self, lines: Sequence[bytes], first: int, source: str) -> Iterator[Portion]:
        """The lines, which begin at number `first`, as records."""

        def place(index: int) -> str:
            return f"line {first + index} of {source}"

        if not self.as_json:
            yield Portion([self.record(line, place, index) for index, line in enumerate(lines)], self.partition, place)
            return
        # In each partition they keep their order; among partitions there is none.
        by_partition: dict[int | None, tuple[list[Record], list[int]]] = {}
        for index, line in enumerate(lines):
            record, partition = self._from_json(line, place, index)
            records, indices = by_partition.setdefault(partition, ([], []))
            records.append(record)
            indices.append(index)
        for partition, (records, indices) in by_partition.items():
            yield Portion(records, partition, lambda index, indices=indices: place(indices[index]))  # type: ignore[misc]

    def record(self, value: bytes, place: Callable[[int], str], index: int) -> Record:
        """One record from its bytes."""
        key = self.key
        if self.key_separator is not None:
            before, separator, after = value.partition(self.key_separator)
            if not separator:
                shown = self.key_separator.decode("utf-8", "backslashreplace")
                raise click.ClickException(f'{place(index)} has no "{shown}" between key and value')
            key, value = before, after
        sent = None if value == self.null_value else value
        return sent if key is None and not self.headers else (key, sent, self.headers, None)

    def _from_json(self, line: bytes, place: Callable[[int], str], index: int) -> tuple[Record, int | None]:
        try:
            fields = json.loads(line.decode())
            if not isinstance(fields, dict):
                raise ValueError("it is no object")
            if "value" not in fields and "value_base64" not in fields:
                raise ValueError('it has no "value" (null is a tombstone)')
            headers = [_header(header) for header in _typed(fields, "headers", list, [])]
            timestamp = _typed(fields, "timestamp", int, None)
            record = (_bytes(fields, "key"), _bytes(fields, "value"), headers, timestamp)
            own = _typed(fields, "partition", int, None)
        except ValueError as error:  # UnicodeError and JSONDecodeError are some, too
            raise click.ClickException(f"{place(index)} is no record in JSON: {error}") from None
        return record, own if self.keep_partitions else self.partition


def _typed(fields: dict[str, Any], name: str, kind: type, default: object) -> Any:
    value = fields.get(name, default)
    if value is not default and (not isinstance(value, kind) or isinstance(value, bool)):
        raise ValueError(f'"{name}" is {json.dumps(value)}, not {"a list" if kind is list else "a whole number"}')
    return value


def _bytes(fields: dict[str, Any], name: str) -> bytes | None:
    """`name` as text, or `name_base64`; null, or neither, is None."""
    text, encoded = fields.get(name), fields.get(f"{name}_base64")
    if text is not None and encoded is not None:
        raise ValueError(f'it has both "{name}" and "{name}_base64"')
    for given in (text, encoded):
        if given is not None and not isinstance(given, str):
            raise ValueError(f'"{name}" is {json.dumps(given)}, not a string or null')
    if encoded is None:
        return None if text is None else text.encode()
    try:
        return base64.b64decode(encoded, validate=True)
    except binascii.Error as error:
        raise ValueError(f'"{name}_base64" is no base64: {error}') from None


def _header(fields: object) -> tuple[str, bytes | None]:
    if not isinstance(fields, dict) or not isinstance(fields.get("name"), str):
        raise ValueError('each of "headers" is an object with a "name"')
    return fields["name"], _bytes(fields, "value")


def from_lines(read: Callable[[int], bytes], source: str, shape: Shape) -> Iterator[Portion]:
    """A record a line, as many at once as one `read` brought. The last line needs no line feed."""
    first = 1
    rest = bytearray()
    while part := read(_AT_ONCE):
        end = part.rfind(b"\n")
        if end < 0:
            rest += part
        else:
            lines = (bytes(rest) + part[:end]).split(b"\n")
            rest = bytearray(part[end + 1 :])
            yield from shape.portions(lines, first, source)
            first += len(lines)
        if len(rest) > LONGEST:
            raise click.ClickException(
                f"line {first} of {source} is longer than {LONGEST >> 20} MiB: is it binary? --file sends whole files"
            )
    if rest:
        yield from shape.portions([bytes(rest)], first, source)


def from_file(path: Path, shape: Shape) -> Iterator[Portion]:
    """The whole file as one record."""
    if path.stat().st_size > LONGEST:
        raise click.ClickException(f"{path} is larger than {LONGEST >> 20} MiB: --lines sends it line by line")

    def place(_: int) -> str:
        return str(path)

    yield Portion([shape.record(path.read_bytes(), place, 0)], shape.partition, place)
