"""Keys and values that name a schema of a Schema Registry, as JSON."""

import json
import logging
import threading
import time
from collections.abc import Sequence
from typing import Any

from grete._native import Message
from grete.errors import RegistryError, RetryLater, SchemaNotFoundError
from grete.payloads import Avro
from grete.payloads.schema_registry import wire
from grete.payloads.schema_registry.client import to_schema_source
from grete.payloads.schema_registry.schemas import SchemaSource

logger = logging.getLogger("grete.web")

# Seconds for which a schema that was not found, or a registry that does not answer, is not asked for again.
_PAUSE = 30.0
# Seconds of these that may be spent on requests that fail: records may name any schemas.
_PATIENCE = 2.0
_MOST_KINDS = 1000
_ALL = ""


class SchemaDecoder:
    """Decoder of Avro and JSON Schema. Thread-safe. A page does not wait for a registry that is away."""

    def __init__(self, registry: str | SchemaSource) -> None:
        """`registry`: URL of the registry, or an object with its methods. Raises ConfigError."""
        self._registry = to_schema_source(registry)
        self._avro = {part: Avro(self._registry).decoder("", part) for part in wire.HEADERS}
        self._kinds: dict[int, str] = {}
        self._failed: dict[object, float] = {}
        self._spent, self._spent_from = 0.0, 0.0
        self._lock = threading.Lock()

    def as_json(self, message: Message, part: str) -> bytes | None:
        """Returns the JSON of "key" or "value"; None: the bytes name no schema, or cannot be decoded with theirs."""
        data = message.key if part == "key" else message.value
        if data is None:
            return None
        headers: Sequence[tuple[str, bytes | None]] = message.headers
        try:
            header = wire.find_header(headers, part)
            schema_id, rest = wire.strip_prefix(data if header is None else header, part)
        except ValueError:
            return None
        if self._is_paused(schema_id) or (schema_id not in self._kinds and self._is_paused(_ALL)):
            return None
        started = time.monotonic()
        try:
            if isinstance(schema_id, int) and self._kind(schema_id) == "JSON":
                return rest if header is None else data
            value = self._avro[part].with_headers(data, headers)
            return json.dumps(value, default=_plain, ensure_ascii=False).encode("utf-8", "backslashreplace")
        except (RegistryError, SchemaNotFoundError, RetryLater) as error:
            self._on_failure(schema_id, error, time.monotonic() - started)
        except Exception as error:  # of any data and any schema: the bytes are shown as they are
            logger.debug("a %s of %s is not decoded: %s", part, message.topic, error)
        return None

    def _on_failure(self, schema_id: object, error: Exception, took: float) -> None:
        now = time.monotonic()
        with self._lock:
            if now - self._spent_from > _PAUSE:
                self._spent, self._spent_from = 0.0, now
            self._spent += took
            is_away = isinstance(error, RetryLater) or self._spent > _PATIENCE
        if is_away:
            logger.warning(
                "the schema registry %r does not answer in time: %s; it is not asked for %g s, and records are shown "
                "as bytes: check --schema-registry",
                self._registry,
                error,
                _PAUSE,
            )
        self._pause(_ALL if is_away else schema_id)

    def _kind(self, schema_id: int) -> str:
        with self._lock:
            found = self._kinds.get(schema_id)
        if found is None:
            found = self._registry.schema(schema_id).kind
            with self._lock:
                if len(self._kinds) >= _MOST_KINDS:
                    self._kinds.clear()
                self._kinds[schema_id] = found
        return found

    def _is_paused(self, key: object) -> bool:
        with self._lock:
            return self._failed.get(key, 0.0) > time.monotonic()

    def _pause(self, key: object) -> None:
        with self._lock:
            if len(self._failed) >= _MOST_KINDS:
                self._failed.clear()
            self._failed[key] = time.monotonic() + _PAUSE


def _plain(value: Any) -> str:
    return value.hex() if isinstance(value, bytes) else str(value)
