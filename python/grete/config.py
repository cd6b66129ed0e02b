"""Settings in layers: defaults < grete.toml < GRETE_... environment < code < command line. Each value knows its origin.

Grete's own settings are snake_case with units ("30s", "64MiB"); Kafka's keep their dotted names, in `kafka={...}`,
`[kafka]` or `GRETE_KAFKA_BOOTSTRAP_SERVERS`. Kafka's are checked by the Rust core, which knows them all.
"""

import os
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from grete import _core
from grete._secrets import masked
from grete.errors import ConfigError
from grete.processing.membership import SETTING as INSTANCE
from grete.processing.membership import instance_id
from grete.settings import NOT_BUILT, ROUTE_SETTINGS, SETTINGS, Setting, check_names
from grete.swarm.settings import SWARM_SETTINGS, SwarmSettings

_ENVIRONMENT = "GRETE_"
_ENVIRONMENT_KAFKA = "GRETE_KAFKA_"
_ENVIRONMENT_SWARM = "GRETE_SWARM_"
_ENVIRONMENT_FILE = "GRETE_CONFIG"
# Not settings of an App; GRETE_SWARM_PIDFD: see `grete.swarm.pidfd`, which only Linux can import.
_ENVIRONMENT_OTHERS = frozenset({_ENVIRONMENT_FILE, "GRETE_SWARM_PIDFD"})


@dataclass(frozen=True, slots=True)
class Value:
    """A value and where it came from."""

    value: Any
    origin: str


@dataclass(slots=True)
class Layer:
    """The settings of one origin."""

    settings: dict[str, Value] = field(default_factory=dict)
    kafka: dict[str, Value] = field(default_factory=dict)
    swarm: dict[str, Value] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Config:
    """What the layers come to."""

    settings: Mapping[str, Value]
    kafka: Mapping[str, Value]
    swarm_values: Mapping[str, Value] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Any:
        return self.settings[name].value

    @property
    def swarm(self) -> SwarmSettings:
        """The swarm's settings; `swarm_values` has their origins."""
        return SwarmSettings(**{name: value.value for name, value in self.swarm_values.items()})

    def instance_id(self, node: int | None = None) -> str | None:
        """`group.instance.id` of this process, or of this node of a swarm; None: no static member."""
        value = self.kafka.get(INSTANCE)
        return instance_id(value.value, node, value.origin) if value is not None and value.value else None

    def kafka_pairs(self, overrides: Mapping[str, str] | None = None) -> list[tuple[str, str]]:
        """Kafka's settings as the core takes them, the overrides last."""
        return [*((name, value.value) for name, value in self.kafka.items()), *(overrides or {}).items()]


def parse(name: str, value: object, origin: str) -> Value:
    """One of Grete's own settings, checked."""
    return _parse(SETTINGS[name], name, value, origin)


def parse_swarm(name: str, value: object, origin: str) -> Value:
    """One of the swarm's settings, checked."""
    return _parse(SWARM_SETTINGS[name], f"swarm.{name}", value, origin)


def _parse(setting: Setting, name: str, value: object, origin: str) -> Value:
    try:
        return Value(setting.parse(value), origin)
    except ValueError as error:
        raise ConfigError(f"{name} (from {origin}): {error}", setting=name, origin=origin) from None


def kafka_text(name: str, value: object, origin: str) -> Value:
    """One of Kafka's settings as the text that Kafka's own files would hold; the core checks it."""
    if isinstance(value, bool):
        return Value("true" if value else "false", origin)
    if isinstance(value, (str, int, float)):
        return Value(str(value), origin)
    if isinstance(value, (list, tuple)) and all(isinstance(item, str) for item in value):
        return Value(",".join(value), origin)
    raise ConfigError(
        f"kafka setting {name} (from {origin}) is a string, a number or a bool, not {masked(name, value)!r}",
        setting=name,
        origin=origin,
    )


def client_pairs(settings: Mapping[str, object]) -> list[tuple[str, str]]:
    """A low-level client's settings as the core takes them. Grete's one own among them, `queued_bytes`, has a unit."""
    given = dict(settings)
    if "queued_bytes" in given:
        given["queued_bytes"] = parse("queued_bytes", given["queued_bytes"], "code").value
    return [(name, kafka_text(name, value, "code").value) for name, value in given.items()]


def layer(settings: Mapping[str, object], kafka: Mapping[str, object], origin: str) -> Layer:
    """A layer of checked values; those of the swarm are a mapping in "swarm". None means: not given."""
    settings = dict(settings)
    swarm = _swarm(settings.pop("swarm", None), origin)
    check_names(settings, [*SETTINGS, "swarm"], "the App" if origin == "code" else origin)
    for name in kafka:
        if name in SETTINGS or name in ROUTE_SETTINGS or name in NOT_BUILT:
            raise ConfigError(
                f"{name} (from {origin}) is Grete's own setting, not Kafka's", setting=name, origin=origin
            )
    given = {name: value for name, value in settings.items() if value is not None and name in SETTINGS}
    return Layer(
        {name: parse(name, value, origin) for name, value in given.items()},
        {name: kafka_text(name, value, origin) for name, value in kafka.items()},
        swarm,
    )


def _swarm(given: object, origin: str) -> dict[str, Value]:
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise ConfigError(
            f'swarm (from {origin}) is a table of settings, like {{"nodes": 4}}, not {given!r}',
            setting="swarm",
            origin=origin,
        )
    check_names(given, SWARM_SETTINGS, "swarm" if origin == "code" else f"[swarm] of {origin}")
    return {name: parse_swarm(name, value, origin) for name, value in given.items() if value is not None}


def file_layer(environment: Mapping[str, str]) -> Layer:
    """`grete.toml` of the working directory, or the file that GRETE_CONFIG names."""
    named = environment.get(_ENVIRONMENT_FILE)
    path = Path(named or "grete.toml")
    try:
        with path.open("rb") as file:
            content = tomllib.load(file)
    except FileNotFoundError:
        if named:
            raise ConfigError(
                f"{_ENVIRONMENT_FILE} names {path}, which does not exist", origin=_ENVIRONMENT_FILE
            ) from None
        return Layer()
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"{path} cannot be read: {error}", origin=str(path)) from None
    kafka = content.pop("kafka", {})
    if not isinstance(kafka, dict):
        raise ConfigError(f"{path}: kafka is a table: [kafka]", setting="kafka", origin=str(path))
    return layer(content, dict(_flatten(kafka)), str(path))


def _flatten(table: Mapping[str, object], prefix: str = "") -> Iterable[tuple[str, object]]:
    """TOML reads `bootstrap.servers = ...` as a table in a table; Kafka means one dotted name."""
    for name, value in table.items():
        if isinstance(value, dict):
            yield from _flatten(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def environment_layer(environment: Mapping[str, str]) -> Layer:
    """`GRETE_WORKERS`, `GRETE_KAFKA_BOOTSTRAP_SERVERS`, and so on. Empty ones count as not set."""
    result = Layer()
    for variable, value in environment.items():
        if not variable.startswith(_ENVIRONMENT) or variable in _ENVIRONMENT_OTHERS or not value:
            continue
        origin = f"environment variable {variable}"
        if variable.startswith(_ENVIRONMENT_KAFKA):
            name = variable.removeprefix(_ENVIRONMENT_KAFKA).lower().replace("_", ".")
            result.kafka[name] = kafka_text(name, value, origin)
            continue
        if variable.startswith(_ENVIRONMENT_SWARM):
            name = variable.removeprefix(_ENVIRONMENT_SWARM).lower()
            check_names({name: value}, SWARM_SETTINGS, origin)
            result.swarm[name] = parse_swarm(name, value, origin)
            continue
        name = variable.removeprefix(_ENVIRONMENT).lower()
        check_names({name: value}, SETTINGS, origin)
        if name in SETTINGS:
            result.settings[name] = parse(name, value, origin)
    return result


def resolve(code: Layer, command_line: Layer, environment: Mapping[str, str] | None = None) -> Config:
    """All layers on top of each other. Kafka's settings are checked by the core, too, before any socket."""
    environment = os.environ if environment is None else environment
    defaults = {
        name: parse(name, setting.default, "default") if setting.default is not None else Value(None, "default")
        for name, setting in SETTINGS.items()
    }
    swarm = {name: parse_swarm(name, setting.default, "default") for name, setting in SWARM_SETTINGS.items()}
    layers = [Layer(defaults), file_layer(environment), environment_layer(environment), code, command_line]
    settings: dict[str, Value] = {}
    kafka: dict[str, Value] = {}
    for one in layers:
        settings |= one.settings
        swarm |= one.swarm
        for name, value in one.kafka.items():
            kafka.pop(name, None)  # so that the later one also comes later: of two spellings the last one wins
            kafka[name] = value
    if swarm["probes"].origin == "default":
        swarm["probes"] = settings["probes"]
    config = Config(settings, kafka, swarm)
    check_kafka(config)
    return config


def check_kafka(config: Config) -> None:
    """Refuses Kafka settings that are unknown, wrong, or not built, and says where they came from.

    Consumers and `Consumer.producer` share the dict, so it has to fit both.
    """
    try:
        _core.config_entries(config.kafka_pairs(), "consumer")
        _core.config_entries(config.kafka_pairs(), "producer")
    except ConfigError as error:
        value = config.kafka.get(error.setting or "")
        if value is None:
            raise
        raise type(error)(f"{error} (from {value.origin})", setting=error.setting, origin=value.origin) from None
    config.instance_id()
