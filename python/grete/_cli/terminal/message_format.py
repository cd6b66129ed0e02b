"""Text and JSON formats of messages."""

import base64
import json
import string
from collections.abc import Callable, Iterable
from datetime import UTC, datetime

from grete._cli.terminal.escapes import json_safe, printable, unescaped
from grete._native import Message

Format = Callable[[Iterable[Message]], bytes]

_WHITESPACE = str.maketrans("\n\r\t", "   ")


def format_text(messages: Iterable[Message], *, escape_control: bool, key_separator: bytes | None = None) -> bytes:
    """Returns the values, one a line, after key and separator if there is one. Bytes that are not UTF-8 are escaped
    with backslashes, a null is `null`.
    """
    separator = None if key_separator is None else _text(key_separator)
    lines = []
    for message in messages:
        text = _text(message.value)
        if separator is not None:
            text = f"{_text(message.key)}{separator}{text}"
        lines.append(printable(text) if escape_control else text)
    return "".join(f"{line}\n" for line in lines).encode()


def format_json(messages: Iterable[Message], *, exact: bool = False) -> bytes:
    """Returns one object a line. Bytes that are not UTF-8 become base64 under `key_base64`, `value_base64`.

    A value that is a JSON object or list is one in the line, too, with its own text; with `exact` it is a string.
    """
    lines = []
    for message in messages:
        fields: dict[str, object] = {
            "topic": message.topic,
            "partition": message.partition,
            "offset": message.offset,
            "timestamp": message.timestamp,
        }
        _put(fields, "key", message.key)
        value = None if exact else _json_text(message.value)
        if value is None:
            _put(fields, "value", message.value)
        headers = []
        for name, content in message.headers:
            header: dict[str, object] = {"name": name}
            _put(header, "value", content)
            headers.append(header)
        after: dict[str, object] = {"headers": headers} if headers else {}
        if value is None:
            line = _dump(fields | after)
        else:
            # The text itself, so that numbers keep their digits and objects their order.
            tail = f",{_dump(after)[1:]}" if after else "}"
            line = f'{_dump(fields)[:-1]},"value":{value}{tail}'
        lines.append(json_safe(line))
    return "".join(f"{line}\n" for line in lines).encode("utf-8", "surrogateescape")


def template(text: str) -> Callable[[Iterable[Message], bool], bytes]:
    r"""Returns a format for a text with fields in braces, like `{partition}[{offset}]\t{key}`, one line a message.

    Raises ValueError for a field that messages do not have.
    """
    parts: list[tuple[str, str | None]] = []
    try:
        parsed = list(string.Formatter().parse(unescaped(text).decode("utf-8", "surrogateescape")))
    except ValueError as error:
        raise ValueError(f'"{text}" is no format: {error}; a brace itself is written twice') from None
    for literal, name, spec, conversion in parsed:
        if name is not None and (name not in _FIELDS or spec or conversion):
            raise ValueError(f'"{{{name}}}" is no field: there are {", ".join(f"{{{field}}}" for field in _FIELDS)}')
        parts.append((literal, name))

    def lines(messages: Iterable[Message], escape_control: bool) -> bytes:
        made = []
        for message in messages:
            line = "".join(literal + ("" if name is None else _FIELDS[name](message)) for literal, name in parts)
            made.append(printable(line) if escape_control else line)
        return "".join(f"{line}\n" for line in made).encode("utf-8", "surrogateescape")

    return lines


def _text(value: bytes | None) -> str:
    return "null" if value is None else value.decode("utf-8", "backslashreplace")


def _time(message: Message) -> str:
    if message.timestamp < 0:
        return "-"  # the record has no timestamp
    try:
        return datetime.fromtimestamp(message.timestamp / 1000, UTC).isoformat(timespec="milliseconds")
    except (ValueError, OverflowError, OSError):
        return str(message.timestamp)  # after the year 9999


def _headers(message: Message) -> str:
    return ",".join(f"{name}={_text(value)}" for name, value in message.headers)


_FIELDS: dict[str, Callable[[Message], str]] = {
    "topic": lambda message: message.topic,
    "partition": lambda message: str(message.partition),
    "offset": lambda message: str(message.offset),
    "timestamp": lambda message: str(message.timestamp),
    "time": _time,
    "key": lambda message: _text(message.key),
    "value": lambda message: _text(message.value),
    "headers": _headers,
}


def _json_text(value: bytes | None) -> str | None:
    """Returns a JSON object or list as JSON on one line; None for other values."""
    if value is None or value[:1] not in (b"{", b"["):
        return None
    try:
        text = value.decode()
        json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError):  # UnicodeError and JSONDecodeError are ValueErrors
        return None
    # Between tokens a line break is a space; within strings JSON has none.
    return text.translate(_WHITESPACE)


def _refuse(constant: str) -> object:
    raise ValueError(f"{constant} is no JSON")  # but Python reads it


def _dump(fields: dict[str, object]) -> str:
    return json.dumps(fields, ensure_ascii=False, separators=(",", ":"))


def _put(fields: dict[str, object], name: str, value: bytes | None) -> None:
    if value is None:
        fields[name] = None
        return
    try:
        fields[name] = value.decode()
    except UnicodeDecodeError:
        fields[f"{name}_base64"] = base64.b64encode(value).decode()
