"""`grete info`: settings with origins, secrets masked, routes, versions."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

import grete
from grete import _native
from grete._cli import main
from grete._config import layers
from grete._swarm import instance_ids

APP = """
import grete
app = grete.App("shop", kafka={"bootstrap.servers": "a:1", "client.id": "c"}, workers=7, swarm={"nodes": 3})

@app.consumer("orders", "returns")
class Orders(grete.Consumer):
    def consume(self): pass

@app.consumer("clicks", group="other", concurrency="key", nodes=[0, 1])
def clicks(message: grete.Message): pass

@app.consumer("audit", group="third", partitions={0: [0, 1], 1: [2]})
def audit(message: grete.Message): pass
"""


def call(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments)


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "informed", raising=False)
    (tmp_path / "informed.py").write_text(APP)
    return tmp_path


def info(*arguments: str) -> dict[str, Any]:
    result = call("info", *arguments, "--json")
    assert result.exit_code == 0, result.output
    content = json.loads(result.output)
    assert isinstance(content, dict)
    return content


def by_name(settings: list[dict[str, Any]]) -> dict[str, tuple[Any, str]]:
    return {setting["name"]: (setting["value"], setting["origin"]) for setting in settings}


def test_each_setting_has_its_origin(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (directory / "grete.toml").write_text('stall_after = "1m"\nworkers = 2\n[swarm]\nmax_rss = "500MiB"\n')
    monkeypatch.setenv("GRETE_MAX_MESSAGES", "9")
    content = info("informed", "-k", "client.id=x")
    settings = by_name(content["settings"])
    assert settings["workers"] == (7, "code")
    assert settings["stall_after"] == (60.0, "grete.toml")
    assert settings["max_messages"] == (9, "environment variable GRETE_MAX_MESSAGES")
    assert settings["queued_bytes"] == (64 << 20, "default")
    assert settings["handler_timeout"] == ("none", "default")
    swarm = by_name(content["swarm"])
    assert swarm["nodes"] == (3, "code")
    assert swarm["max_rss"] == (500 << 20, "grete.toml")
    kafka = by_name(content["kafka"])
    assert kafka.pop("group.instance.id") == (
        f"{instance_ids.id_prefix('shop')}-NODE",
        "swarm.static_membership; grete swarm only",
    )
    assert kafka == {"bootstrap.servers": ("a:1", "code"), "client.id": ("x", "command line")}
    content = info("informed", "-k", "group.instance.id={hostname}-a")
    assert by_name(content["kafka"])["group.instance.id"] == ("{hostname}-a", "command line")
    monkeypatch.setenv("GRETE_SWARM_STATIC_MEMBERSHIP", "no")
    assert "group.instance.id" not in by_name(info("informed")["kafka"])
    defaults = by_name(content["kafka_defaults"])
    assert defaults["session.timeout.ms"] == ("45000", "default")
    assert not set(defaults) & set(kafka)


def test_routes_are_where_they_were_declared() -> None:
    orders, clicks, audit = info("informed:app")["routes"]
    assert orders == {
        "topics": ["orders", "returns"],
        "handler": "Orders.consume",
        "location": "informed.py:5",
        "group": "shop",
        "concurrency": "partition",
        "nodes": None,
        "partitions": None,
    }
    assert (clicks["group"], clicks["concurrency"], clicks["nodes"]) == ("other", "key", [0, 1])
    assert audit["partitions"] == {"0": [0, 1], "1": [2]}


def test_for_people() -> None:
    lines = call("info", "informed").output.splitlines()
    assert lines[0].startswith(f"Grete {grete.__version__}, CPython 3.")
    assert any(line.startswith("pidfd: ") for line in lines)
    at = lines.index('App "shop"')
    assert lines[at + 1].split() == ["TOPICS", "HANDLER", "DECLARED", "AT", "GROUP", "CONCURRENCY", "NODES"]
    assert lines[at + 2].split() == ["orders,returns", "Orders.consume", "informed.py:5", "shop", "partition", "all"]
    assert lines[at + 3].split()[-1] == "0,1"
    assert lines[at + 4].endswith("0: partitions 0,1; 1: partitions 2")
    settings = {line.split()[0]: line.split()[1:] for line in lines[at + 5 :] if line}
    assert settings["max_bytes"] == ["16MiB", "default"]
    assert settings["stall_after"] == ["30s", "default"]
    assert settings["restart_backoff"] == ["1s..30s", "default"]
    assert settings["leak_report"] == ["true", "default"]
    assert settings["group"] == ["-", "default"]
    assert settings["bootstrap.servers"] == ["a:1", "code"]
    assert "session.timeout.ms" not in settings
    assert "session.timeout.ms" in call("info", "informed", "--all").output


def test_pins_of_the_app_are_shown_with_its_routes(directory: Path) -> None:
    (directory / "grete.toml").write_text('[nodes]\n2 = ["orders", "audit"]\n[swarm]\nprobes = "8080"\n')
    lines = call("info", "informed").output.splitlines()
    at = lines.index('App "shop"')
    # "returns" of the same route runs on all three.
    assert lines[at + 2].split()[-1] == "0,1,2"
    assert lines[at + 4].endswith("0: partitions 0,1; 1: partitions 2")
    settings = {" ".join(line.split()) for line in lines}
    assert {"nodes 2: orders,audit grete.toml", "nodes 3 code", "probes :8080 grete.toml"} <= settings


def test_without_an_app_the_files_and_the_environment_speak(directory: Path) -> None:
    content = info()
    assert (content["app"], content["routes"]) == (None, [])
    assert by_name(content["kafka"]) == {"bootstrap.servers": ("localhost:9092", "default")}
    (directory / "grete.toml").write_text('[kafka]\nbootstrap.servers = "b:2"\n')
    assert by_name(info()["kafka"]) == {"bootstrap.servers": ("b:2", "grete.toml")}


def test_what_is_wrong_is_said(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRETE_WORKERS", "many")
    result = call("info", "informed")
    assert result.exit_code == 1
    assert "workers (from environment variable GRETE_WORKERS)" in result.output
    assert "--control goes with --swarm" in call("info", "--control", "x").output


def test_a_secret_is_shown_nowhere(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Settings that would be refused today, as they will be shown when they are built.
    monkeypatch.setattr(_native, "config_entries", lambda pairs, role: [("sasl.password", "hunter2", True)])
    monkeypatch.setattr("grete._config.layers.check_kafka", lambda config: None)
    monkeypatch.setenv("GRETE_KAFKA_SASL_PASSWORD", "hunter2")
    monkeypatch.setenv("GRETE_KAFKA_SASL_MECHANISM", "SCRAM-SHA-512")
    monkeypatch.setenv("GRETE_KAFKA_SSL_KEY_PEM", "hunter2")
    output = call("info", "informed", "--all").output + call("info", "informed", "--json").output
    assert "hunter2" not in output
    assert "SCRAM-SHA-512" in output
    assert layers.MASK in output


def test_the_refusal_of_a_secret_does_not_show_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRETE_KAFKA_SASL_PASSWORD", "hunter2")
    result = call("info", "informed")
    assert result.exit_code == 1
    assert "sasl.password is set, but security.protocol is not" in result.output
    assert "GRETE_KAFKA_SASL_PASSWORD" in result.output
    assert "hunter2" not in result.output


def test_a_secret_of_the_wrong_type_is_not_shown_either() -> None:
    with pytest.raises(grete.ConfigError, match=r"sasl\.password") as caught:
        grete.App("x", kafka={"sasl.password": b"hunter2"})
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    "name",
    [
        "sasl.password",
        "sasl.username",
        "sasl.jaas.config",
        "sasl.oauthbearer.client.secret",
        "ssl.key.password",
        "ssl.key.pem",
        "ssl.keystore.key",
        "ssl.keystore.password",
        "basic.auth.user.info",
        "my.api-key",
        "AUTH_TOKEN",
    ],
)
def test_what_counts_as_a_secret(name: str) -> None:
    assert layers.mask(name, "hunter2") == layers.MASK
    assert layers.mask(name, None) is None


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("sasl.mechanism", "PLAIN"),
        ("sasl.mechanisms", "PLAIN"),
        ("ssl.keystore.location", "/etc/key"),
        ("ssl.keystore.type", "PEM"),
        ("sasl.kerberos.keytab", "/etc/keytab"),
        ("sasl.kerberos.service.name", "kafka"),
        ("ssl.ca.location", "/etc/ca"),
        ("group", "monkeys"),
        ("key.deserializer", "bytes"),
        ("bootstrap.servers", "a:1,b:2"),
        ("workers", 5),
    ],
)
def test_what_does_not(name: str, value: object) -> None:
    assert layers.mask(name, value) == value


@given(st.text(alphabet="abc:/.?#", max_size=20), st.text(alphabet="abc:%", min_size=1, max_size=10))
def test_what_stands_in_a_url_before_the_host_and_in_its_query_is_hidden(rest: str, user: str) -> None:
    shown = layers.mask("schema.registry.url", f"https://{user}@host/{rest}")
    path, query, hidden = rest.partition("?")
    assert shown == f"https://{layers.MASK}@host/{path}{query}{layers.MASK if hidden else ''}"


def test_it_starts_nothing() -> None:
    script = (
        "import threading, os; from grete._cli import main; main(['info', 'informed'], standalone_mode=False); "
        "print(threading.active_count(), len(os.listdir('/proc/self/task')))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "1 1"
