"""Messages as lines."""

import base64
import json
from collections.abc import Iterable

from grete._core import Message

# Bytes that would move a terminal's cursor or ring its bell are shown, not obeyed.
_CONTROL = {code: f"\\x{code:02x}" for code in (*range(32), 127, *range(128, 160)) if code != 0x09}


def printable(text: str) -> str:
    """The text on one line, without what a terminal would obey; tabs stay."""
    return text.translate(_CONTROL)


def as_text(messages: Iterable[Message], *, escape_control: bool) -> bytes:
    """The values, one a line. What is not UTF-8 is escaped with backslashes, a null value is `null`."""
    lines = []
    for message in messages:
        value = message.value
        text = "null" if value is None else value.decode("utf-8", "backslashreplace")
        lines.append(printable(text) if escape_control else text)
    return "".join(f"{line}\n" for line in lines).encode()


def as_json(messages: Iterable[Message]) -> bytes:
    """One object a line. What is not UTF-8 comes as base64 under `key_base64`, `value_base64`."""
    lines = []
    for message in messages:
        fields: dict[str, object] = {
            "topic": message.topic,
            "partition": message.partition,
            "offset": message.offset,
            "timestamp": message.timestamp,
        }
        _put(fields, "key", message.key)
        _put(fields, "value", message.value)
        headers = []
        for name, value in message.headers:
            header: dict[str, object] = {"name": name}
            _put(header, "value", value)
            headers.append(header)
        if headers:
            fields["headers"] = headers
        lines.append(json.dumps(fields, ensure_ascii=False, separators=(",", ":")))
    return "".join(f"{line}\n" for line in lines).encode("utf-8", "surrogateescape")


def _put(fields: dict[str, object], name: str, value: bytes | None) -> None:
    if value is None:
        fields[name] = None
        return
    try:
        fields[name] = value.decode()
    except UnicodeDecodeError:
        fields[f"{name}_base64"] = base64.b64encode(value).decode()
