"""Numbers that JSON does not have are refused, and not written as null."""

import dataclasses
import math
from collections.abc import Callable
from typing import Any, NamedTuple, TypedDict

import msgspec
import pydantic
import pytest

import grete
from grete import testing
from grete.payloads import encode, json_writer


class Line(msgspec.Struct):
    price: float
    note: str | None = None


class Order(msgspec.Struct):
    id: str
    lines: list[Line] = []
    total: float | None = None


class Typed(TypedDict):
    total: float


class Named(NamedTuple):
    total: float


@dataclasses.dataclass
class Data:
    total: float
    note: str | None = None


class Model(pydantic.BaseModel):
    total: float
    lines: list[float] = []
    note: str | None = None


class Constants(Model, ser_json_inf_nan="constants"):
    pass


class Strings(Model, ser_json_inf_nan="strings"):
    pass


@pydantic.dataclasses.dataclass
class ModelData:
    total: float


CASES: list[tuple[Any, Any, str]] = [
    (Order, Order("a", [Line(1.0), Line(math.nan)]), "lines[1].price"),
    (Order, Order("a", total=-math.inf), "total"),
    (Typed, {"total": math.inf}, "total"),
    (Named, Named(math.nan), "[0]"),
    (Data, Data(math.nan), "total"),
    (Model, Model(total=1.0, lines=[1.0, math.inf]), "lines[1]"),
    (ModelData, ModelData(math.nan), "total"),
    (dict[str, Any], {"a": {"b": [None, math.nan]}}, "a.b[1]"),
    (float, math.nan, ""),
    ("json", {"a": [math.nan]}, "a[0]"),
    (None, {"a": math.inf}, "a"),
]


@pytest.mark.parametrize(("kind", "value", "field"), CASES, ids=repr)
def test_a_number_that_json_does_not_have_is_an_error_with_its_field(kind: Any, value: Any, field: str) -> None:
    with pytest.raises(grete.EncodeError) as raised:
        encode.encoder_for(kind, "orders")(value)
    error = raised.value
    assert (error.topic, error.part, error.field) == ("orders", "value", field)
    assert f"{field or 'the value'} is " in str(error)
    assert "which JSON does not have" in str(error)


@pytest.mark.parametrize(
    ("kind", "value", "written"),
    [
        (Order, Order("a", [Line(1.5)]), b'{"id":"a","lines":[{"price":1.5,"note":null}],"total":null}'),
        (dict[str, Any], {"null": 1.0, "a": None}, b'{"null":1.0,"a":null}'),
        (Data, Data(1.0), b'{"total":1.0,"note":null}'),
        (Model, Model(total=1.0), b'{"total":1.0,"lines":[],"note":null}'),
        (Constants, Constants(total=math.nan), b'{"total":NaN,"lines":[],"note":null}'),
        (Strings, Strings(total=math.inf), b'{"total":"Infinity","lines":[],"note":null}'),
    ],
    ids=repr,
)
def test_what_has_a_form_is_written(kind: Any, value: Any, written: bytes) -> None:
    assert encode.encoder_for(kind, "orders")(value) == written


@pytest.mark.parametrize("value", [{"a": [1.0, math.nan]}, Data(math.nan)], ids=repr)
def test_without_msgspec_too(monkeypatch: pytest.MonkeyPatch, value: object) -> None:
    monkeypatch.setattr(json_writer, "installed", lambda _library: False)
    with pytest.raises(json_writer.NonFiniteError) as raised:
        json_writer.json_writer(type(value))(value)
    assert raised.value.field == ("a[1]" if isinstance(value, dict) else "total")


class Whole(msgspec.Struct):
    id: int
    tags: list[str]


@pytest.mark.parametrize(("kind", "searches"), [(Whole, False), (Order, True), (dict, True)])
def test_a_type_without_floats_costs_nothing(kind: type, searches: bool) -> None:
    write: Callable[[Any], bytes] = json_writer.json_writer(kind)
    assert (type(write).__name__ == "function") == searches


def test_a_handlers_result_is_refused() -> None:
    app = grete.App("shop")

    @app.consumer("orders", publish="totals", retry=grete.Retry(1), dead_letter="dlq")
    def total(order: Order) -> Typed:
        return {"total": math.inf * 0}

    run = testing.consume(app, "orders", [Order("a")])
    assert isinstance(run.errors[0], grete.EncodeError)
    assert (run.errors[0].field, len(run.dead), run.published) == ("total", 1, [])
