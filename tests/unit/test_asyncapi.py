"""`grete asyncapi`: the document of an App, checked by AsyncAPI's own JSON Schema and, its payloads, by examples."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypedDict

import jsonschema
import msgspec
import pydantic
import pytest
import yaml

import grete
from examples import accounts, enrich, observe, orders
from grete._asyncapi.document import make_document
from grete.payloads import Avro

SPECIFICATION = json.loads((Path(__file__).parent / "asyncapi-3.0.0.json").read_text())

pytestmark = pytest.mark.usefixtures("empty_directory")


@dataclass
class Line:
    item: str
    count: int


@dataclass
class Order:
    customer: str
    lines: list[Line]


class Invoice(pydantic.BaseModel):
    total: int
    paid: bool = False


class Click(msgspec.Struct):
    page: str


class Signup(TypedDict):
    name: str


def declared(name: str, **settings: Any) -> SimpleNamespace:
    """What `app.topic` makes, as far as the document goes."""
    nothing: dict[str, Any] = {"key": None, "value": None, "partitions": None, "replication": None, "config": {}}
    return SimpleNamespace(name=name, location="", **(nothing | settings))


def document(app: grete.App, *topics: SimpleNamespace) -> dict[str, Any]:
    """The document, valid; all of its references lead somewhere."""
    if topics:
        vars(app)["topics"] = {topic.name: topic for topic in topics}
    made: dict[str, Any] = json.loads(json.dumps(make_document(app, "1.2.3")))
    jsonschema.validate(made, SPECIFICATION)
    for reference in references(made):
        found = made
        for part in reference.removeprefix("#/").split("/"):
            found = found[part]
    return made


def references(part: Any) -> list[str]:
    if isinstance(part, dict):
        own = [part["$ref"]] if isinstance(part.get("$ref"), str) else []
        return own + [found for value in part.values() for found in references(value)]
    return [found for value in part for found in references(value)] if isinstance(part, list) else []


def is_valid(made: dict[str, Any], topic: str, value: object) -> bool:
    """Whether the value fits the payload of a topic's message."""
    schema = {**made["components"]["messages"][topic]["payload"], "components": made["components"]}
    return bool(jsonschema.Draft202012Validator(schema).is_valid(value))


def shop() -> grete.App:
    return grete.App("shop", kafka={"bootstrap.servers": "a:9092,b:9093", "security.protocol": "PLAINTEXT"})


def test_topics_handlers_and_payloads() -> None:
    app = shop()

    @app.consumer("orders", group="billing", dead_letter="orders.dlq", payload=Order)
    def charge(order: Order) -> None: ...

    @app.consumer("invoices", "refunds")
    async def book(invoice: Invoice) -> None: ...

    made = document(app)
    assert made["info"] == {"title": "shop", "version": "1.2.3"}
    assert made["servers"] == {
        "kafka": {"host": "a:9092", "protocol": "kafka"},
        "kafka2": {"host": "b:9093", "protocol": "kafka"},
    }
    assert {name: one["address"] for name, one in made["channels"].items()} == {
        name: name for name in ("orders", "orders.dlq", "invoices", "refunds")
    }
    operations = made["operations"]
    assert {name.rpartition(">.")[2]: one["action"] for name, one in operations.items()} == {
        "charge.orders": "receive",
        "charge.orders.dlq": "send",
        "book.invoices": "receive",
        "book.refunds": "receive",
    }
    (charge_orders,) = [one for name, one in operations.items() if name.endswith("charge.orders")]
    assert charge_orders["channel"] == {"$ref": "#/channels/orders"}
    assert charge_orders["messages"] == [{"$ref": "#/channels/orders/messages/orders"}]
    assert charge_orders["bindings"]["kafka"]["groupId"]["enum"] == ["billing"]
    assert made["components"]["messages"]["orders.dlq"]["contentType"] == "application/octet-stream"
    assert is_valid(made, "orders", {"customer": "ada", "lines": [{"item": "tea", "count": 2}]})
    assert not is_valid(made, "orders", {"customer": "ada", "lines": [{"item": "tea"}]})
    for topic in ("invoices", "refunds"):
        assert is_valid(made, topic, {"total": 3})
        assert not is_valid(made, topic, {"total": "three"})


def test_all_kinds_of_payloads() -> None:
    app = shop()
    schema = {"type": "record", "name": "Order", "fields": [{"name": "customer", "type": "string"}]}
    registry = "http://localhost:8081"
    app.consumer("structs", payload=Click)(lambda message: None)
    app.consumer("dicts", payload=Signup)(lambda message: None)
    app.consumer("optional", payload=Order | None)(lambda message: None)
    app.consumer("lists", payload=list[int])(lambda message: None)
    app.consumer("any", payload="json")(lambda message: None)
    app.consumer("text", payload=str)(lambda message: None)
    app.consumer("bytes", payload=bytes)(lambda message: None)
    app.consumer("unknown")(lambda message: None)
    app.consumer("function", payload=lambda value: value)(lambda message: None)
    app.consumer("avro", payload=Avro(registry=registry, reader=schema))(lambda message: None)
    made = document(app)
    content = {name: one.get("contentType") for name, one in made["components"]["messages"].items()}
    assert content == {
        "structs": "application/json",
        "dicts": "application/json",
        "optional": "application/json",
        "lists": "application/json",
        "any": "application/json",
        "text": "text/plain",
        "bytes": "application/octet-stream",
        "unknown": None,
        "function": None,
        "avro": "application/vnd.apache.avro",
    }
    assert is_valid(made, "structs", {"page": "/"})
    assert not is_valid(made, "structs", {})
    assert is_valid(made, "dicts", {"name": "ada"})
    assert not is_valid(made, "dicts", {})
    assert not is_valid(made, "optional", None)
    assert is_valid(made, "lists", [1])
    assert not is_valid(made, "lists", ["one"])
    assert is_valid(made, "any", None)


def test_types_of_one_name_are_kept_apart() -> None:
    app = shop()
    mine = Order

    def other() -> type:
        @dataclass
        class Order:
            number: int

        return Order

    app.consumer("mine", payload=mine)(lambda message: None)
    app.consumer("others", payload=other())(lambda message: None)
    made = document(app)
    assert {"Order", "Order2", "Line"} == set(made["components"]["schemas"])
    assert is_valid(made, "others", {"number": 1})
    assert not is_valid(made, "others", {"customer": "ada", "lines": []})
    assert not is_valid(made, "mine", {"number": 1})


def test_declared_topics_have_their_settings_and_keys() -> None:
    app = shop()

    @app.consumer("orders")
    def handle(messages: grete.Messages) -> None: ...

    config = {"retention.ms": "3600000", "cleanup.policy": "compact,delete", "segment.ms": "1"}
    made = document(
        app,
        declared("orders", key=str, value=Order, partitions=8, replication=3, config=config),
        declared("invoices", value=Invoice),
    )
    assert made["channels"]["orders"]["bindings"]["kafka"] == {
        "topic": "orders",
        "bindingVersion": "0.5.0",
        "partitions": 8,
        "replicas": 3,
        "topicConfiguration": {
            "retention.ms": 3600000,
            "cleanup.policy": ["compact", "delete"],
            "segment.ms": "1",
        },
    }
    assert made["components"]["messages"]["orders"]["bindings"]["kafka"]["key"] == {"type": "string"}
    assert is_valid(made, "orders", {"customer": "ada", "lines": []})
    assert is_valid(made, "invoices", {"total": 1})
    assert "invoices" in made["channels"], "though nothing reads or writes the topic"


def test_an_app_without_declarations_has_a_document() -> None:
    assert document(grete.App("empty")) == {
        "asyncapi": "3.0.0",
        "info": {"title": "empty", "version": "1.2.3"},
        "defaultContentType": "application/json",
        "components": {"messages": {}, "schemas": {}},
    }


@pytest.mark.parametrize("example", [accounts, enrich, observe, orders], ids=lambda module: module.__name__)
def test_examples_have_valid_documents(example: Any) -> None:
    made = document(example.app)
    assert set(made["channels"]) >= {topic for route in example.app.routes for topic in route.topics}


def test_the_command_prints_json_and_yaml(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(
        'import grete\napp = grete.App("shop")\n@app.consumer("orders")\ndef charge(amount: int) -> None: ...\n'
    )

    def run(*words: str) -> str:
        command = [sys.executable, "-m", "grete", "asyncapi", "shop:app", *words]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60)
        assert done.returncode == 0, done.stderr
        return done.stdout

    made = json.loads(run("--app-version", "2.0.0", "--bootstrap", "c:1"))
    jsonschema.validate(made, SPECIFICATION)
    assert made["info"]["version"] == "2.0.0"
    assert made["servers"]["kafka"]["host"] == "c:1"
    assert made["components"]["messages"]["orders"]["payload"] == {"type": "integer"}
    assert yaml.safe_load(run("--yaml", "--app-version", "2.0.0", "--bootstrap", "c:1")) == made
