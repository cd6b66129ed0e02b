"""Settings of clients: what is passed, or what the configuration says."""

from __future__ import annotations

from pathlib import Path

import pytest

import grete
from grete.client import Admin, Consumer, Producer
from grete.client._settings import from_configuration

Client = type[Admin] | type[Consumer] | type[Producer]
CLIENTS = pytest.mark.parametrize("client", [Admin, Consumer, Producer], ids=lambda client: client.__name__)


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_file_the_environment_and_the_code_in_this_order(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (directory / "grete.toml").write_text(
        'workers = 3\n[kafka]\nbootstrap.servers = "file:1"\n"client.id" = "file"\n"linger.ms" = 7\n'
    )
    monkeypatch.setenv("GRETE_KAFKA_BOOTSTRAP_SERVERS", "environment:1")
    monkeypatch.setenv("GRETE_KAFKA_CLIENT_ID", "environment")
    assert from_configuration(None) == {
        "bootstrap.servers": "environment:1",
        "client.id": "environment",
        "linger.ms": "7",
    }
    found = from_configuration({"client.id": "code", "queued_bytes": "1MiB"})
    assert found == {
        "bootstrap.servers": "environment:1",
        "client.id": "code",
        "linger.ms": "7",
        "queued_bytes": "1MiB",
    }


@CLIENTS
def test_each_client_is_made_from_the_configuration(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRETE_KAFKA_BOOTSTRAP_SERVERS", "127.0.0.1:1")
    with client.from_config() as made:
        assert isinstance(made, client)
    with client.from_config({"client.id": "mine"}) as made:
        assert isinstance(made, client)


@CLIENTS
def test_what_is_passed_is_all_that_counts(client: Client, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (directory / "grete.toml").write_text("nonsense")
    monkeypatch.setenv("GRETE_KAFKA_BOOTSTRAP_SERVERS", "127.0.0.1:1")
    with pytest.raises(grete.ConfigError, match="bootstrap"):
        client({})
    with client({"bootstrap.servers": "127.0.0.1:1"}):
        pass


@CLIENTS
@pytest.mark.parametrize(
    ("setting", "origin"),
    [
        ("file", "grete.toml"),
        ("environment", "environment variable GRETE_KAFKA_LINGER_MS"),
        ("code", "code"),
    ],
)
def test_an_error_names_the_origin(
    client: Client, setting: str, origin: str, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GRETE_KAFKA_BOOTSTRAP_SERVERS", "127.0.0.1:1")
    if setting == "file":
        (directory / "grete.toml").write_text('[kafka]\nlinger.ms = "soon"\n')
    if setting == "environment":
        monkeypatch.setenv("GRETE_KAFKA_LINGER_MS", "soon")
    with pytest.raises(grete.ConfigError) as caught:
        client.from_config({"linger.ms": "soon"} if setting == "code" else None)
    assert str(caught.value).endswith(f"(from {origin})")
    assert caught.value.origin == origin


def test_no_address_anywhere_says_where_one_could_be() -> None:
    with pytest.raises(grete.ConfigError, match=r"bootstrap\.servers.*GRETE_KAFKA_BOOTSTRAP_SERVERS"):
        Producer.from_config()


def test_clients_of_an_app_have_its_name(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    app = grete.App("the shop", kafka={"bootstrap.servers": "127.0.0.1:1"})
    found = app.settings().kafka["client.id"]
    assert (found.value, found.origin) == ("the-shop", "the App's name")
    (directory / "grete.toml").write_text('[kafka]\nclient.id = "other"\n')
    assert app.settings().kafka["client.id"].value == "other"
    monkeypatch.setenv("GRETE_KAFKA_CLIENT_ID", "third")
    assert app.settings().kafka["client.id"].value == "third"
