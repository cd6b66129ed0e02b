"""`grete schemas`: what an App declares, beside what a registry has."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from grete._cli import main
from tests.unit.fake_registry import FakeRegistry

APP = """
import grete, msgspec
from grete.payloads import Avro, JsonSchema
from types import SimpleNamespace

class Order(msgspec.Struct):
    id: int
    note: str | None = None

class Invoice(msgspec.Struct):
    id: int

URL = {url!r}
app = grete.App("shop")
app.topics = {{
    "orders": SimpleNamespace(key=str, value=Avro(URL, Order, namespace="shop")),
    "invoices": SimpleNamespace(key=Avro(URL, schema='"string"'), value=JsonSchema(URL, Invoice)),
    "latest": SimpleNamespace(key=None, value=Avro(URL, use_latest=True)),
}}

@app.consumer("orders", payload=app.topics["orders"].value)
def bill(order: grete.Messages):
    pass

routed = grete.App("routed")

@routed.consumer("orders", "clicks", payload=Avro(URL, Order, namespace="shop"))
def read(order: grete.Messages):
    pass
"""
OLD = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [{"name": "id", "type": "long"}],
}
OLDER = {**OLD, "fields": []}


@pytest.fixture
def registry() -> Iterator[FakeRegistry]:
    with FakeRegistry() as fake:
        yield fake


@pytest.fixture
def app(registry: FakeRegistry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "shop_schemas", raising=False)
    (tmp_path / "shop_schemas.py").write_text(APP.format(url=registry.url))
    return "shop_schemas:app"


def call(*words: str) -> Result:
    return CliRunner().invoke(main, ("schemas", *words))


def rows(result: Result) -> list[tuple[Any, ...]]:
    facts = [json.loads(line) for line in result.stdout.splitlines()]
    return [(one["subject"], one["status"], one["id"], one["version"]) for one in facts]


def test_check_register_and_check_again(registry: FakeRegistry, app: str) -> None:
    new = [(subject, "new", None, None) for subject in ("orders-value", "invoices-key", "invoices-value")]
    done = call("check", app, "--json")
    assert (done.exit_code, rows(done)) == (0, new)
    assert registry.versions == {}
    strict = call("check", app, "--registered")
    assert strict.exit_code == 1
    assert "Error: orders-value: is not registered; `grete schemas register` does so" in strict.stderr
    registered = call("register", app, "--json")
    assert (registered.exit_code, rows(registered)) == (
        0,
        [(subject, "new", number, 1) for number, (subject, *_) in enumerate(new, 1)],
    )
    again = [(subject, "registered", number, 1) for number, (subject, *_) in enumerate(new, 1)]
    for words in (("register", app), ("check", app, "--registered")):
        done = call(*words, "--json")
        assert (done.exit_code, rows(done)) == (0, again)
    assert [len(versions) for versions in registry.versions.values()] == [1, 1, 1]
    table = call("check", app, "--topic", "orders").stdout.splitlines()
    assert [line.split() for line in table] == [
        ["SUBJECT", "STATUS", "ID", "VERSION", "TOPIC", "PART"],
        ["orders-value", "registered", "1", "1", "orders", "value"],
    ]


def test_routes_declare_schemas_too(registry: FakeRegistry, app: str) -> None:
    done = call("check", "shop_schemas:routed", "--json")
    assert (done.exit_code, [row[0] for row in rows(done)]) == (0, ["orders-value", "clicks-value"])


def test_schemas_that_the_registry_would_refuse(registry: FakeRegistry, app: str) -> None:
    registry.register("orders-value", {"schema": json.dumps(OLD)})
    assert rows(call("check", app, "--topic", "orders", "--json")) == [("orders-value", "compatible", None, None)]
    registry.register("orders-value", {"schema": json.dumps(OLDER)})
    done = call("check", app, "--topic", "orders", "--json")
    assert (done.exit_code, rows(done)) == (1, [("orders-value", "incompatible", None, None)])
    assert "Error: orders-value: {errorType:'READER_FIELD_MISSING_DEFAULT_VALUE'" in done.stderr
    done = call("register", app, "--topic", "orders", "--json")
    assert (done.exit_code, rows(done)) == (1, [("orders-value", "incompatible", None, None)])
    assert "(40901)" in done.stderr
    assert registry.versions == {"orders-value": [1, 2]}


def test_differences(registry: FakeRegistry, app: str) -> None:
    registry.register("orders-value", {"schema": json.dumps(OLD)})
    done = call("diff", app, "--topic", "orders")
    assert done.exit_code == 1
    lines = done.stdout.splitlines()
    assert lines[:2] == ["--- orders-value version 1", "+++ orders-value declared"]
    assert '+      "name": "note",' in lines
    assert "--- invoices-value (no version)" in call("diff", app).stdout
    assert call("register", app).exit_code == 0
    done = call("diff", app)
    assert (done.exit_code, done.stdout) == (0, "")


def test_what_cannot_be_asked(registry: FakeRegistry, app: str, tmp_path: Path) -> None:
    assert "the App declares no schema for topic nope" in call("check", app, "--topic", "nope").stderr
    registry.trouble = 503
    done = call("check", app)
    assert (done.exit_code, done.stderr) == (
        1,
        f"Error: the schema registry {registry.url} answers 503 Service Unavailable\n",
    )
    (tmp_path / "bare_schemas.py").write_text("import grete\napp = grete.App('x')\n")
    done = call("check", "bare_schemas")
    assert (done.exit_code, done.stderr) == (0, "the App declares no schemas\n")


def test_protobuf_files_are_registered_with_those_that_they_import(
    registry: FakeRegistry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = (
        "import grete\n"
        "from grete.payloads import Protobuf\n"
        "from tests.unit.test_registry_confluent import shop_class\n"
        "app = grete.App('shop')\n"
        f"app.consumer('orders', payload=Protobuf({registry.url!r}, shop_class('shop.Order')))(lambda order: None)\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "proto_schemas", raising=False)
    (tmp_path / "proto_schemas.py").write_text(source)
    assert rows(call("check", "proto_schemas", "--json")) == [("orders-value", "new", None, None)]
    registry.register(
        "orders-value", {"schemaType": "PROTOBUF", "schema": "EgRzaG9w"}
    )  # package shop; without messages
    # The registry cannot compare what refers to a file that it does not have.
    assert rows(call("check", "proto_schemas", "--json")) == [("orders-value", "unchecked", None, None)]
    assert call("check", "proto_schemas", "--registered").exit_code == 1
    registry.versions.clear()
    assert rows(call("register", "proto_schemas", "--json")) == [("orders-value", "new", 3, 1)]
    assert registry.versions == {"shop/common.proto": [2], "orders-value": [3]}
    assert rows(call("check", "proto_schemas", "--registered", "--json")) == [("orders-value", "registered", 3, 1)]
    del registry.versions["orders-value"]
    assert "message_type {" in call("diff", "proto_schemas").stdout.replace("+", "")
