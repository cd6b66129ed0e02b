"""Avro beside fastavro: random schemas, random values, the same bytes and the same objects."""

import io
import itertools
import json
import math
from typing import Any

import fastavro
import pytest
from hypothesis import HealthCheck, given, reject, settings
from hypothesis import strategies as st

from grete import _native

PRIMITIVES: dict[str, st.SearchStrategy[Any]] = {
    "null": st.none(),
    "boolean": st.booleans(),
    "int": st.integers(-(1 << 31), (1 << 31) - 1),
    "long": st.integers(-(1 << 63), (1 << 63) - 1),
    "float": st.floats(width=32, allow_nan=False),
    "double": st.floats(allow_nan=False),
    "bytes": st.binary(max_size=12),
    "string": st.text(max_size=12),
}
# Both schemas of a pair share the names of the types.
_NUMBERS = itertools.count()


@st.composite
def schemas(draw: st.DrawFn, depth: int = 3) -> tuple[Any, st.SearchStrategy[Any]]:
    """A schema, and the strategy of its values."""
    kinds = [*PRIMITIVES, "enum", "fixed"]
    if depth:
        kinds += ["array", "map", "record", "record", "union"]
    kind = draw(st.sampled_from(kinds))
    if kind in PRIMITIVES:
        return kind, PRIMITIVES[kind]
    name = f"N{next(_NUMBERS)}"
    if kind == "enum":
        return {"type": "enum", "name": name, "symbols": ["A", "B", "C"]}, st.sampled_from("ABC")
    if kind == "fixed":
        size = draw(st.integers(0, 9))
        return {"type": "fixed", "name": name, "size": size}, st.binary(min_size=size, max_size=size)
    if kind == "array":
        item, values = draw(schemas(depth - 1))
        return {"type": "array", "items": item}, st.lists(values, max_size=3)
    if kind == "map":
        item, values = draw(schemas(depth - 1))
        return {"type": "map", "values": item}, st.dictionaries(st.text(max_size=5), values, max_size=3)
    if kind == "union":
        names = draw(st.lists(st.sampled_from(list(PRIMITIVES)), min_size=1, max_size=4, unique=True))
        return names, st.one_of([PRIMITIVES[one] for one in names])
    parts = draw(st.lists(schemas(depth - 1), max_size=4))
    fields = [{"name": f"f{number}", "type": part[0]} for number, part in enumerate(parts)]
    values = st.fixed_dictionaries({f"f{number}": part[1] for number, part in enumerate(parts)})
    return {"type": "record", "name": name, "fields": fields}, values


def written(schema: Any, value: Any) -> bytes:
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, schema, value)
    return stream.getvalue()


@given(st.data())
@settings(max_examples=400, deadline=None, suppress_health_check=list(HealthCheck))
def test_values_are_encoded_and_decoded_as_by_fastavro(data: st.DataObject) -> None:
    schema, values = data.draw(schemas())
    value = data.draw(values)
    codec, parsed = _native.AvroCodec(json.dumps(schema)), fastavro.parse_schema(schema)
    theirs = written(parsed, value)
    assert codec.encode(value) == theirs
    assert codec.decode(theirs) == fastavro.schemaless_reader(io.BytesIO(theirs), parsed, None)


WIDER = {"int": ["int", "long", "float", "double"], "long": ["long", "float", "double"], "float": ["float", "double"]}


@st.composite
def readers(draw: st.DrawFn, schema: Any) -> Any:
    """A schema that can read data of `schema`: numbers widened, fields left out, reordered and added."""
    if isinstance(schema, str):
        return draw(st.sampled_from(WIDER.get(schema, [schema])))
    if isinstance(schema, list):
        return schema
    if schema["type"] == "array":
        return {**schema, "items": draw(readers(schema["items"]))}
    if schema["type"] == "map":
        return {**schema, "values": draw(readers(schema["values"]))}
    if schema["type"] != "record":
        return schema
    fields = [{**field, "type": draw(readers(field["type"]))} for field in schema["fields"] if draw(st.booleans())]
    added = {"name": "added", "type": ["null", "string"], "default": None}
    return {**schema, "fields": draw(st.permutations([*fields, added]))}


@given(st.data())
@settings(max_examples=400, deadline=None, suppress_health_check=list(HealthCheck))
def test_readers_get_what_they_get_from_fastavro(data: st.DataObject) -> None:
    schema, values = data.draw(schemas())
    reader, value = data.draw(readers(schema)), data.draw(values)
    theirs = written(fastavro.parse_schema(schema), value)
    try:
        expected = fastavro.schemaless_reader(
            io.BytesIO(theirs), fastavro.parse_schema(schema), fastavro.parse_schema(reader)
        )
    except UnicodeDecodeError:
        reject()  # fastavro reads bytes as the string that comes first in the union
    found = _native.AvroCodec(json.dumps(schema), json.dumps(reader)).decode(theirs)
    assert same(found, expected, value), (found, expected)


def same(found: Any, expected: Any, original: Any) -> bool:
    """Whether both are equal, with the same types. `original`: what was written.

    fastavro leaves an int an int where the reader has a float. It reads a string or bytes as the one that comes first
    in the reader's union, though the other one is the same type: there the type is that of what was written, as the
    specification says.
    """
    if isinstance(found, dict):
        return (
            isinstance(expected, dict)
            and found.keys() == expected.keys()
            and all(same(found[key], expected[key], original.get(key)) for key in found)
        )
    if isinstance(found, list):
        return isinstance(expected, list) and len(found) == len(expected) and all(map(same, found, expected, original))
    if isinstance(found, float) and type(expected) in (int, float):
        return math.isclose(found, expected, rel_tol=1e-6) or found == expected  # a long as a float loses digits
    if {type(found), type(expected)} == {str, bytes}:
        return type(found) is type(original) and bool(found == original)
    return type(found) is type(expected) and bool(found == expected)


@pytest.mark.parametrize(
    ("found", "expected", "original"),
    [
        (b"a", "a", "a"),
        ("a", b"a", b"a"),
        (1, 1.0, 1),
        (True, 1, 1),
        ({"a": b"x"}, {"a": "x"}, {"a": "x"}),
        ([1], (1,), [1]),
    ],
)
def test_the_comparison_is_strict(found: Any, expected: Any, original: Any) -> None:
    assert not same(found, expected, original)
    assert same(original, original, original)


@given(st.data(), st.binary(max_size=40))
@settings(max_examples=400, deadline=None, suppress_health_check=list(HealthCheck))
def test_any_bytes_are_an_error_or_a_value(data: st.DataObject, value: bytes) -> None:
    schema, _ = data.draw(schemas())
    codec = _native.AvroCodec(json.dumps(schema))
    try:
        found = codec.decode(value)
    except ValueError:
        return
    assert codec.decode(codec.encode(found)) == found or "nan" in repr(found)
