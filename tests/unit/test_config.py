"""Layers of settings, where each value came from, and what is refused."""

import math
from collections.abc import Mapping
from pathlib import Path

import pytest

import grete
from grete._config import layers, registry
from grete._config.layers import Layer, environment_layer, parse_layer, resolve_config
from tests.unit.config_layers import layers_in_order, winners

pytestmark = pytest.mark.usefixtures("empty_directory")

KAFKA = {"bootstrap.servers": "localhost:9092"}


def resolved(
    code: Mapping[str, object] | None = None,
    command_line: Mapping[str, object] | None = None,
    environment: Mapping[str, str] | None = None,
    kafka: Mapping[str, object] = KAFKA,
) -> layers.Config:
    return resolve_config(
        parse_layer(code or {}, kafka, "code"), parse_layer(command_line or {}, {}, "command line"), environment or {}
    )


def test_defaults() -> None:
    registry = resolved()
    assert (registry["workers"], registry["max_messages"], registry["shutdown_timeout"]) == (5, 500, 30.0)
    assert registry["queued_bytes"] == 64 << 20
    assert registry["group"] is None
    assert (registry["max_bytes"], registry["max_wait"], registry["stall_after"]) == (16 << 20, 0.0, 30.0)
    assert (registry["handler_timeout"], registry["leak_report"], registry["loop"]) == (math.inf, True, "auto")
    assert registry.settings["workers"].origin == "default"


def test_each_layer_goes_before_those_below(empty_directory: Path) -> None:
    found = [resolved()]
    (empty_directory / "grete.toml").write_text("workers = 2\n")
    for environment, code, command_line in layers_in_order("GRETE_WORKERS", "workers"):
        found.append(resolved(code, command_line, environment))
    values = [each.settings["workers"] for each in found]
    assert [(value.value, value.origin) for value in values] == [(5, "default"), *winners("GRETE_WORKERS")]


def test_kafka_settings_come_from_all_layers_too(empty_directory: Path) -> None:
    (empty_directory / "grete.toml").write_text(
        'queued_bytes = "1MiB"\n[kafka]\nbootstrap.servers = "a:1"\n"client.id" = "file"\n'
    )
    environment = {"GRETE_KAFKA_CLIENT_ID": "env", "GRETE_KAFKA_FETCH_MIN_BYTES": "2", "GRETE_KAFKA_GROUP_ID": ""}
    registry = resolved(kafka={"fetch.min.bytes": 3}, environment=environment)
    assert dict(registry.kafka_pairs()) == {"bootstrap.servers": "a:1", "client.id": "env", "fetch.min.bytes": "3"}
    assert registry.kafka["bootstrap.servers"].origin == "grete.toml"
    assert registry["queued_bytes"] == 1 << 20


def test_of_two_spellings_the_nearer_layer_wins(empty_directory: Path) -> None:
    (empty_directory / "grete.toml").write_text('[kafka]\nbootstrap.servers = "a:1"\nmetadata.broker.list = "b:1"\n')
    pairs = resolved(kafka={"bootstrap.servers": "c:1"}).kafka_pairs()
    assert pairs[-1] == ("bootstrap.servers", "c:1")


def test_another_file_can_be_named(empty_directory: Path) -> None:
    other = empty_directory / "other.toml"
    other.write_text("workers = 7\n")
    assert resolved(environment={"GRETE_CONFIG": str(other)})["workers"] == 7
    with pytest.raises(grete.ConfigError, match="which does not exist"):
        resolved(environment={"GRETE_CONFIG": "missing.toml"})


def test_kafka_values_are_what_a_properties_file_would_say() -> None:
    kafka = {**KAFKA, "allow.auto.create.topics": True, "fetch.min.bytes": 5, "bootstrap.servers": ["a:1", "b:2"]}
    assert dict(resolved(kafka=kafka).kafka_pairs()) == {
        "bootstrap.servers": "a:1,b:2",
        "allow.auto.create.topics": "true",
        "fetch.min.bytes": "5",
    }
    with pytest.raises(grete.ConfigError, match=r"client\.id \(from code\) is a string"):
        resolved(kafka={**KAFKA, "client.id": None})


def test_settings_of_all_layers_have_units(empty_directory: Path) -> None:
    (empty_directory / "grete.toml").write_text('max_wait = "20ms"\nstall_after = "none"\nleak_report = false\n')
    registry = resolved(environment={"GRETE_HANDLER_TIMEOUT": "5m", "GRETE_MAX_BYTES": "1MB", "GRETE_LOOP": "asyncio"})
    assert (registry["max_wait"], registry["stall_after"], registry["leak_report"]) == (0.02, math.inf, False)
    assert (registry["handler_timeout"], registry["max_bytes"], registry["loop"]) == (300.0, 1_000_000, "asyncio")
    assert resolved(environment={"GRETE_LEAK_REPORT": "No"})["leak_report"] is False


def test_uvloop_must_be_there_when_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(grete.ConfigError, match=r'uvloop is not installed: pip install "grete\[uvloop\]"'):
        parse_layer({"loop": "uvloop"}, {}, "code")
    parse_layer({"loop": "auto"}, {}, "code")


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"worker": 3}, 'no setting "worker"; did you mean "workers"?'),
        ({"bootstrap.servers": "x"}, r'bootstrap\.servers is Kafka\'s: kafka=\{"bootstrap\.servers": \.\.\.\} in code'),
        (
            {"bootstrap_servers": "x"},
            r'"bootstrap_servers": bootstrap\.servers is Kafka\'s: kafka=\{"bootstrap\.servers"',
        ),
        ({"no.such": "x"}, "go into kafka="),
        ({"workers": 10_001}, r"workers \(from code\): 10001 is more than the 10000 that are possible"),
        ({"max_messages": 1 << 32}, "4294967296 is more than the 4294967295 that are possible"),
        ({"max_messages": "9" * 5000}, "a whole number from 1 up"),
        ({"max_bytes": 10**400}, "a size is at most 1048576GiB"),
        ({"queued_bytes": "1" * 400 + "B"}, "a size is at most 1048576GiB"),
        ({"shutdown_timeout": 10**400}, "a duration is at most 876000h, which is 100 years"),
        ({"stall_after": 1e300}, "a duration is at most 876000h"),
        ({"max_wait": "1" * 400 + "s"}, "a duration is at most 876000h"),
        ({"swarm": {"crash_loop_after": 10**30}}, r"swarm\.crash_loop_after \(from code\): 1000.* more than"),
        ({"swarm": {"cpus": [10**30]}}, r"swarm\.cpus \(from code\): CPU 1000.* is out of range"),
        ({"workers": 0}, r"workers \(from code\): it is a whole number from 1 up, not 0"),
        ({"workers": "many"}, "whole number"),
        ({"workers": True}, "whole number"),
        ({"shutdown_timeout": "30"}, r'shutdown_timeout \(from code\): "30" has no unit'),
        ({"queued_bytes": "64"}, "has no unit"),
        ({"group": ""}, "non-empty string"),
        ({"log_level": "loud"}, "debug, info"),
        ({"max_bytes": 0}, "at least one byte"),
        ({"max_wait": "2"}, r'max_wait \(from code\): "2" has no unit'),
        ({"max_wait": "-2s"}, "a number and a unit"),
        ({"stall_after": 0}, 'at least 1ms, not 0; "none" switches it off'),
        ({"handler_timeout": "soon"}, '"none" switches it off'),
        ({"leak_report": "perhaps"}, "true or false, not 'perhaps'"),
        ({"loop": "uvlop"}, 'it is "auto", "own", "host", "asyncio" or "uvloop", not \'uvlop\'; did you mean "uvloop"'),
        ({"retry": grete.Retry()}, r"the App has no setting \"retry\": it is a setting of a route: @app\.consumer"),
        ({"backoff": "fast"}, r"it belongs to the retry policy: retry=grete\.Retry\(backoff="),
    ],
)
def test_wrong_settings_name_themselves_and_the_cure(settings: dict[str, object], says: str) -> None:
    with pytest.raises(grete.ConfigError, match=says):
        parse_layer(settings, {}, "code")


@pytest.mark.parametrize("name", registry.NOT_SUPPORTED)
def test_what_is_planned_is_refused_by_name(name: str) -> None:
    with pytest.raises(grete.NotSupportedError, match=f"{name}='something' is not built yet") as caught:
        parse_layer({name: "something"}, {}, "code")
    assert caught.value.setting == name
    parse_layer({name: None}, {}, "code")


@pytest.mark.parametrize("variable", ["GRETE_CONFIG", "GRETE_SWARM_PIDFD"])
def test_environment_variables_that_are_no_settings_are_left_alone(variable: str) -> None:
    assert layers.environment_layer({variable: "no"}) == layers.Layer()


def test_unknown_environment_variables_are_refused_with_their_name() -> None:
    with pytest.raises(
        grete.ConfigError, match='variable GRETE_WORKER: Grete has no setting "worker"; did you mean "workers"'
    ):
        environment_layer({"GRETE_WORKER": "3"})
    with pytest.raises(grete.ConfigError, match="environment variable GRETE_WORKERS"):
        environment_layer({"GRETE_WORKERS": "x"})
    with pytest.raises(
        grete.ConfigError, match=r"GRETE_RETRY: Grete has no setting \"retry\": it is a setting of a route"
    ):
        environment_layer({"GRETE_RETRY": "x"})
    with pytest.raises(grete.ConfigError, match="it is called exactly_once"):
        environment_layer({"GRETE_TRANSACTIONAL": "yes"})
    assert environment_layer({"PATH": "x", "GRETE_WORKERS": ""}).settings == {}


@pytest.mark.parametrize(
    ("variable", "cure"),
    [
        ("GRETE_BOOTSTRAP", "GRETE_KAFKA_BOOTSTRAP_SERVERS"),
        ("GRETE_BOOTSTRAP_SERVERS", "GRETE_KAFKA_BOOTSTRAP_SERVERS"),
        ("GRETE_BROKERS", "GRETE_KAFKA_BOOTSTRAP_SERVERS"),
        ("GRETE_AUTO_OFFSET_RESET", "GRETE_KAFKA_AUTO_OFFSET_RESET"),
        ("GRETE_LINGER_MS", "GRETE_KAFKA_LINGER_MS"),
    ],
)
def test_a_setting_of_kafkas_without_its_prefix_is_recognised(variable: str, cure: str) -> None:
    with pytest.raises(grete.ConfigError, match=rf"{variable}: Grete has no setting .* is Kafka's: .*, or {cure}$"):
        environment_layer({variable: "x"})


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (
            'bootstrap = "a:1"',
            r"grete\.toml has no setting \"bootstrap\": bootstrap\.servers is .* \[kafka\] in grete\.toml",
        ),
        ("max_messages = 99999999999999999999", r"max_messages \(from grete.toml\): .* more than"),
        ("workers = ", "grete.toml cannot be read"),
        ("kafka = 3", "kafka is a table"),
        ("wrokers = 3", 'grete.toml has no setting "wrokers"; did you mean "workers"'),
        ('shutdown_timeout = "x"', r"shutdown_timeout \(from grete.toml\)"),
    ],
)
def test_a_bad_file_is_named(empty_directory: Path, content: str, says: str) -> None:
    (empty_directory / "grete.toml").write_text(content)
    with pytest.raises(grete.ConfigError, match=says):
        resolved()


def test_grete_settings_among_kafkas_are_refused() -> None:
    with pytest.raises(grete.ConfigError, match=r"queued_bytes \(from code\) is Grete's own setting"):
        resolved(kafka={**KAFKA, "queued_bytes": "1MiB"})


def test_kafka_mistakes_are_named_with_their_origin() -> None:
    with pytest.raises(grete.ConfigError, match=r'did you mean "?bootstrap\.servers"?.*\(from code\)') as caught:
        resolved(kafka={"bootstrap.server": "x:1"})
    assert (caught.value.setting, caught.value.origin) == ("bootstrap.server", "code")
    with pytest.raises(grete.ConfigError, match="GRETE_KAFKA_FETCH_MIN_BYTES"):
        resolved(environment={"GRETE_KAFKA_FETCH_MIN_BYTES": "x"})
    with pytest.raises(grete.ConfigError, match=r"security\.protocol=SASL_SSL needs sasl\.mechanism"):
        resolved(kafka={**KAFKA, "security.protocol": "SASL_SSL"})
    with pytest.raises(grete.ConfigError, match=r"bootstrap\.servers"):
        resolve_config(Layer(), Layer(), {})


def test_an_apps_kafka_settings_serve_its_producer_too() -> None:
    kafka = {**KAFKA, "linger.ms": 0, "compression.type": "zstd", "group.id": "g"}
    assert dict(resolved(kafka=kafka).kafka_pairs())["linger.ms"] == "0"
    with pytest.raises(grete.ConfigError, match=r"delivery\.timeout\.ms \(5\) must be at least .*\(from code\)"):
        resolved(kafka={**KAFKA, "delivery.timeout.ms": 5})
    with pytest.raises(grete.NotSupportedError, match=r"transactional\.id.*\(from code\)"):
        layers.refuse_transactional_id(resolved(kafka={**KAFKA, "transactional.id": "t"}).kafka)
    with pytest.raises(grete.NotSupportedError, match=r"only one producer at a time"):
        grete.App("orders", kafka={**KAFKA, "transactional.id": "t"}).settings()


def test_an_app_refuses_a_transactional_id_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRETE_KAFKA_TRANSACTIONAL_ID", "t")
    app = grete.App("orders", kafka=KAFKA)
    with pytest.raises(grete.NotSupportedError, match="GRETE_KAFKA_TRANSACTIONAL_ID"):
        app.settings()


def test_a_login_may_be_spread_over_the_layers(empty_directory: Path) -> None:
    login = {**KAFKA, "security.protocol": "SASL_SSL", "sasl.mechanism": "SCRAM-SHA-512", "sasl.username": "alice"}
    layers.check_code_kafka(layers.parse_layer({}, login, "code"))  # the declaration of an App, without the password
    with pytest.raises(grete.ConfigError, match=r"GRETE_KAFKA_SASL_PASSWORD"):
        resolved(kafka=login)
    found = resolved(kafka=login, environment={"GRETE_KAFKA_SASL_PASSWORD": "hunter2"})
    assert ("sasl.password", "hunter2") in found.kafka_pairs()
    misspelt = layers.parse_layer({}, {**login, "sasl.user.name": "alice"}, "code")
    with pytest.raises(grete.ConfigError, match=r'did you mean "sasl\.username"'):
        layers.check_code_kafka(misspelt)
