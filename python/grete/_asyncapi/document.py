"""AsyncAPI 3 document: channels are topics, operations are handlers that read, and topics that they write to."""

import contextlib
from collections.abc import Mapping
from typing import Any

from grete._asyncapi.schemas import Schemas
from grete._config.layers import Config
from grete._routing import signatures
from grete._routing.routes import Route
from grete.app import App
from grete.errors import ConfigError

_BINDING = "0.5.0"
_INTEGERS = ("retention.ms", "retention.bytes", "delete.retention.ms", "max.message.bytes")

# Address for settings that must be complete, when no broker is named.
_NO_BROKER = "unset:9092"


def make_document(app: App, version: str, kafka: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Returns the document of an App. `version`: the App's own. `kafka`: Kafka's settings of the command line.

    Raises ConfigError for settings that cannot be used. The address of brokers may be missing.
    """
    return _Document(app, _settings(app, kafka or {})).build(version)


def _settings(app: App, kafka: Mapping[str, str]) -> Config:
    app.override({}, kafka)
    try:
        return app.settings()
    except ConfigError as error:
        if "bootstrap.servers is not set" not in str(error):
            raise
    app.override({}, {**kafka, "bootstrap.servers": _NO_BROKER})
    return app.settings()


class _Document:
    def __init__(self, app: App, config: Config) -> None:
        self._app = app
        self._config = config
        self._topics: Mapping[str, Any] = getattr(app, "topics", {})
        self._schemas = Schemas()
        self._messages: dict[str, Any] = {}
        self._channels: dict[str, Any] = {}
        self._operations: dict[str, Any] = {}

    def build(self, version: str) -> dict[str, Any]:
        for topic in self._topics:
            self._channel(topic, None)
        for group, routes in self._app.groups(self._config).items():
            for route in routes:
                self._add_route(route, group)
        document: dict[str, Any] = {
            "asyncapi": "3.0.0",
            "info": {"title": self._app.name, "version": version},
            "defaultContentType": "application/json",
            "servers": self._servers(),
            "channels": self._channels,
            "operations": self._operations,
            "components": {"messages": self._messages, "schemas": self._schemas.components},
        }
        return {name: part for name, part in document.items() if part != {}}

    def _servers(self) -> dict[str, Any]:
        found = self._config.kafka.get("bootstrap.servers")
        security = self._config.kafka.get("security.protocol")
        protocol = "kafka-secure" if security is not None and "SSL" in security.value.upper() else "kafka"
        named = found is not None and found.value != _NO_BROKER
        hosts = [host.strip() for host in found.value.split(",") if host.strip()] if found and named else []
        return {
            "kafka" if number == 1 else f"kafka{number}": {"host": host, "protocol": protocol}
            for number, host in enumerate(hosts, 1)
        }

    def _add_route(self, route: Route, group: str) -> None:
        bindings = {"kafka": {"groupId": {"type": "string", "enum": [group]}, "bindingVersion": _BINDING}}
        for topic in route.topics:
            reference = self._channel(topic, self._payload_of(route, topic))
            extra = {"bindings": bindings, "summary": f"{route.name} reads {topic}"}
            self._operation(f"{route.name}.{topic}", "receive", reference, extra)
        publish = getattr(route, "publish", None)
        if publish is not None:
            name = getattr(publish, "name", publish)
            value = getattr(getattr(route, "output", None), "value", None)
            extra = {"summary": f"{route.name} writes to {name}"}
            self._operation(f"{route.name}.{name}", "send", self._channel(name, value), extra)
        if route.dead_letter is not None:
            extra = {"summary": f"{route.name} writes what it has given up to {route.dead_letter}"}
            reference = self._channel(route.dead_letter, bytes)
            self._operation(f"{route.name}.{route.dead_letter}", "send", reference, extra)

    def _payload_of(self, route: Route, topic: str) -> Any:
        if route.payload is not None:
            return route.payload
        declared = self._topics.get(topic)
        if declared is not None and declared.value is not None:
            return declared.value
        with contextlib.suppress(ConfigError):  # a type that only the place of the declaration knows
            return signatures.inspect_handler(route.handler, {}).payload_type
        return None

    def _channel(self, topic: str, payload: Any) -> str:
        """Returns the reference of a topic's channel, which is added on first use; the first known payload counts."""
        declared = self._topics.get(topic)
        channel = self._channels.get(topic)
        if channel is None:
            binding: dict[str, Any] = {"topic": topic, "bindingVersion": _BINDING}
            if declared is not None:
                binding |= _topic_binding(declared)
                payload = declared.value if declared.value is not None else payload
            channel = self._channels[topic] = {
                "address": topic,
                "messages": {topic: {"$ref": f"#/components/messages/{topic}"}},
                "bindings": {"kafka": binding},
            }
            self._messages[topic] = {"name": topic}
        message = self._messages[topic]
        if "contentType" not in message:
            self._describe(message, payload, None if declared is None else declared.key)
        return f"#/channels/{topic}"

    def _describe(self, message: dict[str, Any], payload: Any, key: Any) -> None:
        content, schema = self._schemas.describe(payload)
        if content is not None:
            message["contentType"] = content
        if schema is not None:
            message["payload"] = schema
        _, key_schema = self._schemas.describe(key)
        if key_schema is not None:
            message["bindings"] = {"kafka": {"key": key_schema, "bindingVersion": _BINDING}}

    def _operation(self, name: str, action: str, channel: str, extra: Mapping[str, Any]) -> None:
        number, free = 1, name
        while free in self._operations:
            number += 1
            free = f"{name}{number}"
        topic = channel.rpartition("/")[2]
        messages = [{"$ref": f"{channel}/messages/{topic}"}]
        self._operations[free] = {"action": action, "channel": {"$ref": channel}, "messages": messages, **extra}


def _topic_binding(topic: Any) -> dict[str, Any]:
    binding: dict[str, Any] = {}
    if topic.partitions is not None:
        binding["partitions"] = topic.partitions
    if topic.replication is not None:
        binding["replicas"] = topic.replication
    config: dict[str, Any] = dict(topic.config or {})
    for name in _INTEGERS:
        if name in config:
            with contextlib.suppress(ValueError):
                config[name] = int(config[name])
    if "cleanup.policy" in config:
        config["cleanup.policy"] = [word.strip() for word in str(config["cleanup.policy"]).split(",")]
    if config:
        binding["topicConfiguration"] = config
    return binding
