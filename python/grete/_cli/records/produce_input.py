"""Records from lines, files and JSON, in chunks that are sent at once."""

import base64
import binascii
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click

from grete._cli.terminal.escapes import escaped
from grete.client.arguments import MAX_OFFSET, MAX_PARTITION

# Largest read in bytes. A read of a pipe returns the present data, so that the lines of a slow writer do not wait.
_READ_SIZE = 1 << 20
# No broker takes a record of this size: input with such a long line is most likely binary.
MAX_RECORD_BYTES = 64 << 20

Headers = Sequence[tuple[str, bytes | None]]
# Record for Producer.produce_many: a value, or more fields of a record.
Record = bytes | None | tuple[bytes | None, bytes | None, Headers, int | None]


@dataclass(frozen=True)
class InputChunk:
    """Records that are sent at once, all to one partition or by their keys."""

    records: Sequence[Record]
    partition: int | None
    # Location of the record with this index in the input.
    location: Callable[[int], str]


@dataclass(frozen=True)
class RecordFormat:
    """Conversion of a line or a file to a record."""

    key: bytes | None = None
    key_separator: bytes | None = None
    null_value: bytes | None = None
    headers: Headers = field(default=())
    partition: int | None = None
    as_json: bool = False
    keep_partitions: bool = False

    def to_chunks(self, lines: Sequence[bytes], first: int, source: str) -> Iterator[InputChunk]:
        """Yields the lines as records. `first`: number of the first line."""

        def place(index: int) -> str:
            return f"line {first + index} of {source}"

        if not self.as_json:
            yield InputChunk(
                [self.to_record(line, place, index) for index, line in enumerate(lines)], self.partition, place
            )
            return
        # Order is kept in each partition; between partitions there is none.
        by_partition: dict[int | None, tuple[list[Record], list[int]]] = {}
        for index, line in enumerate(lines):
            record, partition = self._from_json(line, place, index)
            records, indices = by_partition.setdefault(partition, ([], []))
            records.append(record)
            indices.append(index)
        for partition, (records, indices) in by_partition.items():
            yield InputChunk(records, partition, lambda index, indices=indices: place(indices[index]))  # type: ignore[misc]

    def to_record(self, value: bytes, place: Callable[[int], str], index: int) -> Record:
        """Makes one record from its bytes."""
        key = self.key
        if self.key_separator is not None:
            before, separator, after = value.partition(self.key_separator)
            if not separator:
                shown = escaped(self.key_separator)
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
            timestamp = _number(fields, "timestamp", MAX_OFFSET)
            if isinstance(value := fields.get("value"), (dict, list)):
                fields["value"] = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
            record = (_bytes(fields, "key"), _bytes(fields, "value"), headers, timestamp)
            own = _number(fields, "partition", MAX_PARTITION)
        except ValueError as error:  # UnicodeError and JSONDecodeError are subclasses
            raise click.ClickException(f"{place(index)} is no record in JSON: {error}") from None
        return record, own if self.keep_partitions else self.partition


def _typed(fields: dict[str, Any], name: str, kind: type, default: object) -> Any:
    value = fields.get(name, default)
    if value is not default and (not isinstance(value, kind) or isinstance(value, bool)):
        raise ValueError(f'"{name}" is {json.dumps(value)}, not {"a list" if kind is list else "a whole number"}')
    return value


def _number(fields: dict[str, Any], name: str, most: int) -> int | None:
    number: int | None = _typed(fields, name, int, None)
    if number is not None and not 0 <= number <= most:
        raise ValueError(f'"{name}" is {number}, not from 0 to {most}')
    return number


def _bytes(fields: dict[str, Any], name: str) -> bytes | None:
    """Returns the bytes of `name` as text, or of `name_base64`; null, or neither, is None."""
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
    fields["name"].encode()  # raises for characters that JSON can represent and UTF-8 cannot
    return fields["name"], _bytes(fields, "value")


def read_lines(read: Callable[[int], bytes], source: str, shape: RecordFormat) -> Iterator[InputChunk]:
    """Yields a record per line, one chunk per `read`. The last line needs no line feed."""
    first = 1
    partial_line = bytearray()
    while part := _read_chunk(read, source):
        end = part.rfind(b"\n")
        if end < 0:
            partial_line += part
        else:
            lines = (bytes(partial_line) + part[:end]).split(b"\n")
            partial_line = bytearray(part[end + 1 :])
            yield from shape.to_chunks(lines, first, source)
            first += len(lines)
        if len(partial_line) > MAX_RECORD_BYTES:
            raise click.ClickException(
                f"line {first} of {source} is longer than {MAX_RECORD_BYTES >> 20} MiB: is it binary? --file sends "
                "whole files"
            )
    if partial_line:
        yield from shape.to_chunks([bytes(partial_line)], first, source)


def _read_chunk(read: Callable[[int], bytes], source: str) -> bytes:
    try:
        return read(_READ_SIZE)
    except OSError as error:
        raise click.ClickException(f"{source} cannot be read: {error.strerror}") from None


def read_file(path: Path, shape: RecordFormat) -> Iterator[InputChunk]:
    """Yields the whole file as one record."""
    if path.stat().st_size > MAX_RECORD_BYTES:
        raise click.ClickException(f"{path} is larger than {MAX_RECORD_BYTES >> 20} MiB: --lines sends it line by line")

    def place(_: int) -> str:
        return str(path)

    yield InputChunk([shape.to_record(path.read_bytes(), place, 0)], shape.partition, place)
