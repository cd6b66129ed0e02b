"""Layers of settings: defaults < grete.toml < GRETE_... environment < code < command line. Each value knows its origin.

Grete's own settings are snake_case with units ("30s", "64MiB"). Kafka's settings keep their dotted names, in
`kafka={...}`, `[kafka]` or `GRETE_KAFKA_BOOTSTRAP_SERVERS`. The Rust core, which knows all of Kafka's settings, checks
them.
"""

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from grete import _native
from grete._config.latency import fetch_settings
from grete._config.parsers import Setting
from grete._config.registry import NOT_SUPPORTED, ROUTE_SETTINGS, SETTINGS, check_names
from grete._config.static_membership import SETTING as INSTANCE
from grete._config.static_membership import instance_id
from grete._config.swarm_settings import SWARM_SETTINGS, SwarmSettings
from grete.errors import ConfigError, NotSupportedError

_ENVIRONMENT = "GRETE_"
_ENVIRONMENT_KAFKA = "GRETE_KAFKA_"
_ENVIRONMENT_SWARM = "GRETE_SWARM_"
_ENVIRONMENT_FILE = "GRETE_CONFIG"
# Not settings of an App. GRETE_SWARM_PIDFD: see `grete._swarm.node.pidfd`, which only Linux can import.
_ENVIRONMENT_OTHERS = frozenset({_ENVIRONMENT_FILE, "GRETE_SWARM_PIDFD"})

MASK = "********"

# Brokers use client ids in names of metrics.
_NOT_IN_CLIENT_IDS = re.compile(r"[^A-Za-z0-9._-]")

_SECRET = re.compile(
    r"passw(or)?d|passphrase|secret|token|credential|jaas|api[._-]?key|private|basic\.auth|^sasl\.|^ssl\..*key",
    re.IGNORECASE,
)
# These settings say how secrets are kept and sent, and where. One needs to see them when the connection fails.
_NOT_SECRET = re.compile(
    r"^sasl\.mechanisms?$|^sasl\.allow\.plaintext$|^sasl\.oauthbearer\.(method|scope)$|\.(file|url|provider)$|"
    r"\.(location|type|algorithm)$|^sasl\.kerberos\.(service\.name|keytab)$|^sasl\.(login|oauthbearer)\..*(\.ms|\.seconds)$"
)
# A function: the only setting of Kafka's clients that is no text. A name stands for the function in all layers.
_TOKEN_PROVIDER = "sasl.oauthbearer.token.provider"  # noqa: S105
_USER_INFO = re.compile(r"(?<=://)[^/@\s]*@")
_QUERY = re.compile(r"\?.+", re.DOTALL)


@dataclass(frozen=True, slots=True)
class SettingValue:
    """Value of a setting, with its origin."""

    value: Any
    origin: str


@dataclass(slots=True)
class Layer:
    """Settings of one origin."""

    settings: dict[str, SettingValue] = field(default_factory=dict)
    kafka: dict[str, SettingValue] = field(default_factory=dict, repr=False)  # has secrets
    swarm: dict[str, SettingValue] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Config:
    """Effective settings, after all layers."""

    settings: Mapping[str, SettingValue]
    kafka: Mapping[str, SettingValue]
    swarm_values: Mapping[str, SettingValue] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Any:
        return self.settings[name].value

    def __repr__(self) -> str:
        kafka = {name: mask(name, setting.value) for name, setting in self.kafka.items()}
        settings = {name: setting.value for name, setting in self.settings.items()}
        return f"Config(settings={settings}, kafka={kafka}, swarm_values={dict(self.swarm_values)})"

    @property
    def swarm(self) -> SwarmSettings:
        """Settings of the swarm; `swarm_values` has their origins."""
        return SwarmSettings(**{name: value.value for name, value in self.swarm_values.items()})

    def instance_id(self, node: int | None = None) -> str | None:
        """Returns the `group.instance.id` of this process, or of a node of a swarm; None: no static member."""
        value = self.kafka.get(INSTANCE)
        return instance_id(value.value, node, value.origin) if value is not None and value.value else None

    def kafka_pairs(self, overrides: Mapping[str, str] | None = None) -> list[tuple[str, str]]:
        """Returns Kafka's settings as pairs for the core, the overrides last."""
        return [*((name, value.value) for name, value in self.kafka.items()), *(overrides or {}).items()]


def parse(name: str, value: object, origin: str) -> SettingValue:
    """Parses and checks one of Grete's own settings."""
    return _parse(SETTINGS[name], name, value, origin)


def parse_swarm(name: str, value: object, origin: str) -> SettingValue:
    """Parses and checks one of the swarm's settings."""
    return _parse(SWARM_SETTINGS[name], f"swarm.{name}", value, origin)


def _parse(setting: Setting, name: str, value: object, origin: str) -> SettingValue:
    try:
        return SettingValue(setting.parse(value), origin)
    except ValueError as error:
        raise ConfigError(f"{name} (from {origin}): {error}", setting=name, origin=origin) from None


def parse_kafka_value(name: str, value: object, origin: str) -> SettingValue:
    """Returns one of Kafka's settings as the text of Kafka's own files; the core checks it."""
    if isinstance(value, bool):
        return SettingValue("true" if value else "false", origin)
    if isinstance(value, (str, int, float)):
        return SettingValue(_encodable(name, str(value), origin), origin)
    if isinstance(value, (list, tuple)) and all(isinstance(item, str) for item in value):
        return SettingValue(_encodable(name, ",".join(value), origin), origin)
    if name == _TOKEN_PROVIDER and callable(value):
        from grete._sasl import sources

        return SettingValue(sources.register(value), origin)
    raise ConfigError(
        f"kafka setting {name} (from {origin}) is a string, a number or a bool, not {mask(name, value)!r}",
        setting=name,
        origin=origin,
    )


def _encodable(name: str, text: str, origin: str) -> str:
    """Returns the text. Raises ConfigError if the text is not UTF-8, as a variable of the environment may be.

    An UnicodeEncodeError would hold the value, which may be a password, so that none is raised or kept as a context.
    """
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise ConfigError(
            f"kafka setting {name} (from {origin}) is not UTF-8 (its value is not shown): write it in UTF-8",
            setting=name,
            origin=origin,
        )
    return text


def client_config_pairs(settings: Mapping[str, object]) -> list[tuple[str, str]]:
    """Returns the settings of a low-level client as pairs for the core. `queued_bytes`, the only one of Grete's own,
    has a unit.
    """
    given = dict(settings)
    if "queued_bytes" in given:
        given["queued_bytes"] = parse("queued_bytes", given["queued_bytes"], "code").value
    return [(name, parse_kafka_value(name, value, "code").value) for name, value in given.items()]


def consumer_config_pairs(settings: Mapping[str, object]) -> list[tuple[str, str]]:
    """Returns the settings of a low-level consumer as pairs for the core, with the fetch settings of `latency`."""
    given = dict(settings)
    latency = parse("latency", given.pop("latency", 0.0), "code").value
    pairs = client_config_pairs(given)
    return [*pairs, *fetch_settings(latency, dict(pairs)).items()]


def parse_layer(settings: Mapping[str, object], kafka: Mapping[str, object], origin: str) -> Layer:
    """Returns a layer of checked values. The swarm's settings are a mapping in "swarm". None means: not given."""
    settings = dict(settings)
    swarm = _swarm(settings.pop("swarm", None), origin)
    check_names(settings, [*SETTINGS, "swarm"], "the App" if origin == "code" else origin)
    for name in kafka:
        if name in SETTINGS or name in ROUTE_SETTINGS or name in NOT_SUPPORTED:
            raise ConfigError(
                f"{name} (from {origin}) is Grete's own setting, not Kafka's", setting=name, origin=origin
            )
    given = {name: value for name, value in settings.items() if value is not None and name in SETTINGS}
    return Layer(
        {name: parse(name, value, origin) for name, value in given.items()},
        {name: parse_kafka_value(name, value, origin) for name, value in kafka.items()},
        swarm,
    )


def _swarm(given: object, origin: str) -> dict[str, SettingValue]:
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
    """Reads `grete.toml` in the working directory, or the file that GRETE_CONFIG names."""
    named = environment.get(_ENVIRONMENT_FILE)
    path = Path(named or "grete.toml")
    try:
        with path.open("rb") as file:
            import tomllib  # most processes have no such file

            content = tomllib.load(file)
    except FileNotFoundError:
        if named:
            raise ConfigError(
                f"{_ENVIRONMENT_FILE} names {path}, which does not exist", origin=_ENVIRONMENT_FILE
            ) from None
        return Layer()
    except (OSError, ValueError) as error:  # of the encoding, or of the syntax
        raise ConfigError(f"{path} cannot be read: {error}", origin=str(path)) from None
    kafka = content.pop("kafka", {})
    if not isinstance(kafka, dict):
        raise ConfigError(f"{path}: kafka is a table: [kafka]", setting="kafka", origin=str(path))
    return parse_layer(content, dict(_flatten(kafka)), str(path))


def _flatten(table: Mapping[str, object], prefix: str = "") -> Iterable[tuple[str, object]]:
    """Joins nested tables to dotted names: TOML reads `bootstrap.servers = ...` as a table in a table."""
    for name, value in table.items():
        if isinstance(value, dict):
            yield from _flatten(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def environment_layer(environment: Mapping[str, str]) -> Layer:
    """Reads `GRETE_WORKERS`, `GRETE_KAFKA_BOOTSTRAP_SERVERS`, and so on. Empty variables count as not set."""
    result = Layer()
    for variable, value in environment.items():
        if not variable.startswith(_ENVIRONMENT) or variable in _ENVIRONMENT_OTHERS or not value:
            continue
        origin = f"environment variable {variable}"
        if variable.startswith(_ENVIRONMENT_KAFKA):
            name = variable.removeprefix(_ENVIRONMENT_KAFKA).lower().replace("_", ".")
            result.kafka[name] = parse_kafka_value(name, value, origin)
            continue
        if variable.startswith(_ENVIRONMENT_SWARM):
            name = variable.removeprefix(_ENVIRONMENT_SWARM).lower()
            check_names({name: value}, SWARM_SETTINGS, f"{origin}: the swarm")
            result.swarm[name] = parse_swarm(name, value, origin)
            continue
        name = variable.removeprefix(_ENVIRONMENT).lower()
        check_names({name: value}, SETTINGS, f"{origin}: Grete")
        if name in SETTINGS:
            result.settings[name] = parse(name, value, origin)
    return result


def resolve_config(code: Layer, command_line: Layer, environment: Mapping[str, str] | None = None) -> Config:
    """Resolves all layers. Kafka's settings are checked by the core, too, before any socket is opened."""
    environment = os.environ if environment is None else environment
    defaults = {
        name: parse(name, setting.default, "default") if setting.default is not None else SettingValue(None, "default")
        for name, setting in SETTINGS.items()
    }
    swarm = {name: parse_swarm(name, setting.default, "default") for name, setting in SWARM_SETTINGS.items()}
    layers = [Layer(defaults), file_layer(environment), environment_layer(environment), code, command_line]
    settings: dict[str, SettingValue] = {}
    kafka: dict[str, SettingValue] = {}
    for one in layers:
        settings |= one.settings
        swarm |= one.swarm
        for name, value in one.kafka.items():
            kafka.pop(name, None)  # so that the later one also comes later in the dict: the last of two spellings wins
            kafka[name] = value
    if swarm["probes"].origin == "default":
        swarm["probes"] = settings["probes"]
    config = Config(settings, kafka, swarm)
    check_kafka(config)
    fetch_settings(config["latency"], dict(config.kafka_pairs()))  # refuses an explicit fetch setting beside a budget
    return config


def with_client_id(config: Config, app_name: str) -> Config:
    """Returns the settings with the App's name as `client.id`, if there is no other, so that groups and brokers name
    the App.
    """
    if config.kafka.get("client.id"):
        return config
    client_id = SettingValue(_NOT_IN_CLIENT_IDS.sub("-", app_name), "the App's name")
    return Config(config.settings, {**config.kafka, "client.id": client_id}, config.swarm_values)


def check_kafka(config: Config) -> None:
    """Refuses Kafka settings that are unknown, invalid, or not implemented, and names their origin.

    Consumers and `Consumer.producer` share the dict, so it must be valid for both.
    """
    try:
        _native.config_entries(config.kafka_pairs(), "consumer")
        _native.config_entries(config.kafka_pairs(), "producer")
    except ConfigError as error:
        value = config.kafka.get(error.setting or "")
        if value is None and error.setting == "bootstrap.servers":
            where = "in [kafka] of grete.toml, or in GRETE_KAFKA_BOOTSTRAP_SERVERS"
            raise ConfigError(f"{error}; {where}", setting=error.setting) from None
        if value is None:
            raise
        file = config.kafka.get(f"{error.setting}.file")
        origin = value.origin
        if file is not None and f"{error.setting}.file" in str(error):  # both are set
            origin = f"{value.origin}, and the file from {file.origin}"
        raise type(error)(f"{error} (from {origin})", setting=error.setting, origin=value.origin) from None
    config.instance_id()


def refuse_transactional_id(kafka: Mapping[str, SettingValue]) -> None:
    """Refuses `transactional.id` among the settings of an App without exactly-once routes: its nodes share them, and
    would fence each other.
    """
    given = kafka.get("transactional.id")
    if given is not None and given.value:
        raise NotSupportedError(
            f"transactional.id = {str(given.value)!r} is for a grete.client.Producer that you make: all nodes of an "
            "App share its settings, and only one producer at a time may use an id; leave it out of the App's "
            f"settings (from {given.origin}), or make a route exactly_once, for which it is a prefix",
            setting="transactional.id",
            origin=given.origin,
        )


def check_code_kafka(layer: Layer) -> None:
    """Refuses Kafka settings of the code that are unknown, invalid, or not implemented, before the other layers are
    read.
    """
    kafka = {"bootstrap.servers": SettingValue("any:1", "default"), **layer.kafka}
    # The password may come from another layer: without a login, only the settings themselves are checked.
    if any(name.startswith(("sasl.", "ssl.", "security.")) for name in kafka):
        kafka["security.protocol"] = SettingValue("PLAINTEXT", "code")
        kafka["bootstrap.servers"] = SettingValue("any:1", "default")  # an address may begin with the protocol
    if any(name != "bootstrap.servers" for name in kafka):
        check_kafka(Config({}, kafka))


def mask(name: str, value: object) -> object:
    """Returns the value if it may be shown, else a mask. In other values, the part before the "@" of a URL is
    masked, and in addresses also what follows the "?".
    """
    if value is None or value == "":
        return value
    if _SECRET.search(name) and not _NOT_SECRET.search(name):
        return MASK
    if isinstance(value, str):
        shown = _USER_INFO.sub(f"{MASK}@", value)
        return _QUERY.sub(f"?{MASK}", shown) if name.endswith(".url") else shown
    return value


def mask_pair(pair: str) -> str:
    """Returns what may be shown of an option that was to be NAME=VALUE: its first word, since a secret may follow."""
    return re.sub(r"(?<=[\s:=]).+", MASK, pair.lstrip(), count=1, flags=re.DOTALL)
