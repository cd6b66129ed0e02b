"""Masks: parts of records that no page shows, no search finds and no download has, whatever the user's role."""

import json
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from grete._dlq import header_names
from grete._native import Message
from grete.errors import ConfigError

MASKED = "***"
_ANY = "*"
_DOT = re.compile(r"(?<!\\)\.")
_FORM = (
    "TOPIC:key, TOPIC:value, TOPIC:value.FIELD.FIELD or TOPIC:headers.NAME; the topic may be a pattern as shop-*, "
    "a field * is any, and \\. is a dot in a name"
)

Path = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Mask:
    """Part of the records of topics.

    Attributes:
        topic: name of the topic, or a pattern of names with `*`, `?` and `[...]`.
        part: "key", "value" or "headers".
        path: names of JSON fields in lower case, from the outermost; (): all of the part. Of a header, its name.
    """

    topic: str
    part: str
    path: Path


@dataclass(frozen=True, slots=True)
class MaskedRecord:
    """Parts of a record as pages may show them. `masked`: a mask covers at least one part."""

    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]]
    masked: bool


class Masks:
    """Masks of all topics. A dead letter has those of the topic that its record came from, too."""

    def __init__(self, masks: Iterable[Mask] = ()) -> None:
        self._masks = tuple(masks)

    def covers_key(self, topic: str) -> bool:
        """Returns whether a part of the topic's keys is masked: a search by key would find out what a key is."""
        return bool(self._paths({topic}, "key"))

    def hides_key(self, message: Message) -> bool:
        """Returns whether a part of the record's key is masked, as that of a dead letter by the masks of its source."""
        return bool(self._paths(_topics(message), "key"))

    def hides_errors(self, message: Message) -> bool:
        """Returns whether the text of the record's last error is masked: an exception may have the record in it."""
        topics = _topics(message)
        return bool(self._paths(topics, "key") or self._paths(topics, "value"))

    def apply(self, message: Message, key: bytes | None, value: bytes | None) -> MaskedRecord:
        """Returns the parts of a record without what is masked. `key`, `value`: JSON that they were decoded to, or the
        bytes of the record.
        """
        topics = _topics(message)
        of_key, of_value = self._paths(topics, "key"), self._paths(topics, "value")
        names = {name for (name,) in self._paths(topics, "headers")}
        if of_key or of_value:
            names.add(header_names.ERROR_MESSAGE.lower())
        if not names:
            return MaskedRecord(key, value, message.headers, masked=False)
        hidden = MASKED.encode()
        headers = [
            (name, hidden if data is not None and name.lower() in names else data) for name, data in message.headers
        ]
        return MaskedRecord(_masked(key, of_key), _masked(value, of_value), headers, masked=True)

    def _paths(self, topics: Collection[str], part: str) -> set[Path]:
        return {
            mask.path
            for mask in self._masks
            if mask.part == part and any(fnmatchcase(topic, mask.topic) for topic in topics)
        }


def parse_masks(texts: Iterable[str]) -> Masks:
    """Parses masks of the command line. Raises ConfigError."""
    return Masks(_parse(text) for text in texts)


def _parse(text: str) -> Mask:
    topic, _, path = text.partition(":")
    part, dot, rest = path.partition(".")
    if part == "headers" and topic and rest:
        return Mask(topic, part, (rest.lower(),))
    fields = tuple(name.replace("\\.", ".").casefold() for name in _DOT.split(rest)) if dot else ()
    if not topic or part not in ("key", "value") or not all(fields):
        raise ConfigError(f'a mask is {_FORM}; not "{text}"', setting="mask")
    return Mask(topic, part, fields)


def _topics(message: Message) -> set[str]:
    """Returns the topic of the record, and the one that it names as its source if it is a dead letter."""
    sources = (
        data.decode("utf-8", "replace") for name, data in message.headers if name == header_names.SOURCE_TOPIC and data
    )
    return {message.topic, *sources}


def _masked(data: bytes | None, paths: Collection[Path]) -> bytes | None:
    """Returns JSON without the fields of these paths; all is masked of data in which no field can be found."""
    if data is None or not paths:
        return data
    if () in paths:
        return MASKED.encode()
    try:
        document = json.loads(data)
        if not isinstance(document, (dict, list)):
            return MASKED.encode()
        return json.dumps(_without(document, frozenset(paths)), ensure_ascii=False).encode("utf-8", "backslashreplace")
    except (ValueError, RecursionError):
        return MASKED.encode()


def _without(node: Any, paths: frozenset[Path]) -> Any:
    """Returns the JSON value without the fields of these paths. A list is no level: the paths go on in its items. A
    path that goes on where no fields are masks what is there: the field may be in it, in another form.
    """
    if not paths or node is None:
        return node
    if () in paths:
        return MASKED
    if isinstance(node, dict):
        return {name: _without(child, _below(paths, name)) for name, child in node.items()}
    if isinstance(node, list):
        return [_without(item, paths) for item in node]
    return MASKED


def _below(paths: frozenset[Path], name: str) -> frozenset[Path]:
    folded = name.casefold()
    return frozenset(path[1:] for path in paths if path[0] in (folded, _ANY))
