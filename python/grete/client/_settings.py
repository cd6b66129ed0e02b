"""Settings of clients from `grete.toml` and the environment."""

from collections.abc import Mapping
from typing import Any

from grete._config import layers


def from_configuration(settings: Mapping[str, Any] | None) -> dict[str, Any]:
    """Returns Kafka's settings of `grete.toml` (`[kafka]`), then of `GRETE_KAFKA_...` variables, then `settings`.

    Raises ConfigError, which names the file, the variable or "code" as the origin of a wrong setting.
    """
    given = dict(settings or {})
    # Grete's own settings that low-level clients take.
    own = {name: given.pop(name) for name in ("queued_bytes", "latency") if name in given}
    code = layers.parse_layer({}, given, "code")
    config = layers.resolve_config(code, layers.Layer())
    return {name: value.value for name, value in config.kafka.items()} | own
