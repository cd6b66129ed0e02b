"""What a process is called as a static member."""

import socket

import pytest

from grete import ConfigError, _native
from grete._config.layers import parse_layer, resolve_config
from grete._config.static_membership import instance_id

KAFKA = {"bootstrap.servers": "localhost:9092", "group.id": "shop"}


@pytest.fixture(autouse=True)
def hostname(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: "web1.example")


@pytest.mark.parametrize(
    ("template", "node", "made"),
    [
        ("shop", None, "shop"),
        ("{hostname}", None, "web1.example"),
        ("{hostname}", 0, "web1.example-0"),
        ("a_{hostname}-b", 11, "a_web1.example-b-11"),
        ("shop", 2, "shop-2"),
        ("x" * 247, 3, "x" * 247 + "-3"),
    ],
)
def test_the_host_and_the_node_make_the_id(template: str, node: int | None, made: str) -> None:
    assert instance_id(template, node) == made


@pytest.mark.parametrize(
    ("template", "node", "words"),
    [
        ("{host}", None, ["{host} is no placeholder", "{hostname}"]),
        ("{}", None, ["{} is no placeholder"]),
        ("shop-{node}", 1, ["{node} is no placeholder", "have their number appended"]),
        ("shop 1", None, ["letters, digits"]),
        ("{{hostname}}", None, ["letters, digits", "'{web1.example}'"]),
        ("", None, ["letters, digits"]),
        (".", None, ["letters, digits"]),
        ("x" * 248, 3, ["249", "250"]),
    ],
)
def test_what_cannot_be_an_id_is_refused_with_its_origin(template: str, node: int | None, words: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        instance_id(template, node, "grete.toml")
    assert (caught.value.setting, caught.value.origin) == ("group.instance.id", "grete.toml")
    for word in [*words, "group.instance.id", "from grete.toml"]:
        assert word in str(caught.value)


def test_the_settings_say_so_before_anything_starts() -> None:
    environment = {"GRETE_KAFKA_GROUP_INSTANCE_ID": "{pod}"}
    with pytest.raises(ConfigError, match="from environment variable GRETE_KAFKA_GROUP_INSTANCE_ID"):
        resolve_config(parse_layer({}, KAFKA, "code"), parse_layer({}, {}, "command line"), environment)


@pytest.mark.parametrize(
    ("given", "alone", "node"), [("{hostname}", "web1.example", "web1.example-7"), ("", None, None)]
)
def test_a_config_knows_each_processes_id(given: str, alone: str | None, node: str | None) -> None:
    config = resolve_config(
        parse_layer({}, KAFKA | {"group.instance.id": given}, "code"), parse_layer({}, {}, "command line"), {}
    )
    assert (config.instance_id(), config.instance_id(7)) == (alone, node)


def test_a_client_reports_its_membership() -> None:
    """No broker answers here: the client has not joined, and says so without waiting."""
    pairs = [*KAFKA.items(), ("bootstrap.servers", "127.0.0.1:1"), ("group.instance.id", "me")]
    client = _native.Client(pairs, _native.Dispatcher(), [])
    membership = client.membership()
    assert (membership["group"], membership["instance"], membership["state"], membership["ready"]) == (
        "shop",
        "me",
        "unjoined",
        False,
    )
    assert (membership["generation"], membership["partitions"]) == (-1, 0)
    assert membership["since"] >= 0.0
    client.assign([("t", 0, "earliest"), ("t", 1, 7)])
    membership = client.membership()
    assert (membership["state"], membership["ready"], membership["partitions"]) == ("assigned", True, 2)
    client.close(0.0)


def test_the_core_refuses_an_id_that_brokers_would() -> None:
    with pytest.raises(ConfigError, match=r'group.instance.id="a b" is refused by brokers') as caught:
        _native.Client([*KAFKA.items(), ("group.instance.id", "a b")], _native.Dispatcher(), [])
    assert caught.value.setting == "group.instance.id"
