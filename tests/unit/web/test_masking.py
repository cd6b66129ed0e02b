"""Masks of records: what they hide, and that they hide rather more than less."""

from __future__ import annotations

import json
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grete._web.security import masking
from grete._web.security.masking import MASKED, MaskedRecord, Masks, parse_masks
from grete.errors import ConfigError


def record(
    value: bytes | None,
    key: bytes | None = b"k",
    topic: str = "orders",
    headers: Sequence[tuple[str, bytes | None]] = (),
) -> Any:
    return SimpleNamespace(topic=topic, key=key, value=value, headers=headers)


def applied(masks: Masks, found: Any) -> MaskedRecord:
    return masks.apply(found, found.key, found.value)


def masked_value(mask: str, value: object) -> Any:
    found = applied(parse_masks([mask]), record(json.dumps(value).encode())).value
    assert found is not None
    return json.loads(found)


@pytest.mark.parametrize(
    ("path", "value", "expected"),
    [
        ("card", {"card": 1, "other": 2}, {"card": MASKED, "other": 2}),
        ("card.number", {"card": {"number": "4711", "type": "x"}}, {"card": {"number": MASKED, "type": "x"}}),
        ("card", {"card": {"number": "4711"}}, {"card": MASKED}),
        ("card.number", {"card": "4711"}, {"card": MASKED}),
        ("card.number", {"card": ["4711"], "x": 1}, {"card": [MASKED], "x": 1}),
        ("card.number", {"card": '{"number": "4711"}'}, {"card": MASKED}),
        ("card.number", {"card": None}, {"card": None}),
        ("card.number", {"Card": {"NUMBER": "4711", "a": 1}}, {"Card": {"NUMBER": MASKED, "a": 1}}),
        (
            r"card\.number",
            {"card.number": "4711", "card": {"number": 1}},
            {"card.number": MASKED, "card": {"number": 1}},
        ),
        (
            "items.name",
            {"items": [{"name": "a"}, {"name": "b", "n": 1}]},
            {"items": [{"name": MASKED}, {"name": MASKED, "n": 1}]},
        ),
        ("name", [{"name": "a"}, 7], [{"name": MASKED}, MASKED]),
        (
            "*.name",
            {"a": {"name": 1}, "b": {"name": 2, "n": 3}},
            {"a": {"name": MASKED}, "b": {"name": MASKED, "n": 3}},
        ),
        ("*", [1, {"a": 2}], [MASKED, {"a": MASKED}]),
    ],
)
def test_fields_of_json_are_masked_and_no_others(path: str, value: object, expected: object) -> None:
    assert masked_value(f"orders:value.{path}", value) == expected


@pytest.mark.parametrize(
    "value",
    [b"card 4711", b"\0\0\0\0\1{}", b'"4711"', b"4711", b"\xff", b'{"card": 4711', b"[" * 100_000 + b"]" * 100_000],
)
def test_a_value_in_which_no_field_can_be_found_is_masked_as_a_whole(value: bytes) -> None:
    assert applied(parse_masks(["orders:value.card"]), record(value)).value == MASKED.encode()


def test_the_last_of_two_fields_with_one_name_does_not_bring_back_the_first() -> None:
    found = applied(parse_masks(["orders:value.card"]), record(b'{"card": 4711, "card": 4712}')).value
    assert found == b'{"card": "***"}'


def test_keys_headers_and_whole_values() -> None:
    masks = parse_masks(["orders:key", "*:headers.Authorization", "pay-*:value"])
    headers: list[tuple[str, bytes | None]] = [("authorization", b"secret"), ("other", b"x"), ("AUTHORIZATION", None)]
    found = applied(masks, record(b"v", headers=headers))
    assert (found.key, found.value) == (MASKED.encode(), b"v")
    assert found.headers == [("authorization", MASKED.encode()), ("other", b"x"), ("AUTHORIZATION", None)]
    found = applied(masks, record(b"v", topic="pay-eu"))
    assert (found.key, found.value, found.masked) == (b"k", MASKED.encode(), True)
    assert applied(masks, record(None, topic="pay-eu")).value is None, "a null is no secret"
    assert (masks.covers_key("orders"), masks.covers_key("pay-eu")) == (True, False)
    assert not applied(parse_masks(["pay-*:value"]), record(b"v")).masked


def test_a_dead_letter_has_the_masks_of_its_source() -> None:
    masks = parse_masks(["orders:value.card"])
    headers: list[tuple[str, bytes | None]] = [
        ("grete.source.topic", b"orders"),
        ("grete.error.message", b"bad card 4711"),
    ]
    letter = record(b'{"card": 4711}', topic="orders.dead", headers=headers)
    found = applied(masks, letter)
    assert found.value == b'{"card": "***"}'
    assert dict(found.headers)["grete.error.message"] == MASKED.encode()
    assert masks.hides_errors(letter)
    assert not masks.hides_errors(record(b"", topic="other"))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "orders",
        "orders:",
        ":value",
        "orders:body",
        "orders:value.",
        "orders:value..a",
        "orders:headers",
        "orders:headers.",
    ],
)
def test_a_mask_that_cannot_be_read_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="a mask is TOPIC:key"):
        parse_masks([text])


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["card", "a", "b"]), inner, max_size=3),
)


def test_many_stars_cost_no_more_than_the_record(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = 0
    below = masking._below

    def counted(paths: frozenset[tuple[str, ...]], name: str) -> frozenset[tuple[str, ...]]:
        nonlocal calls
        calls += 1
        return below(paths, name)

    monkeypatch.setattr(masking, "_below", counted)
    value = b"[" * 400 + b'{"a": {"a": {"a": {"number": 1}}}}' + b"]" * 400
    found = applied(parse_masks(["orders:value.*.*.*.number"]), record(value)).value
    assert found is not None
    assert b'"number": "***"' in found
    assert calls == 4


@given(_JSON.filter(lambda value: isinstance(value, (dict, list))))
def test_nothing_under_a_masked_name_is_left_at_the_top(value: object) -> None:
    found = masked_value("orders:value.card", value)
    rows = found if isinstance(found, list) else [found]
    assert all(row["card"] in (MASKED, None) for row in rows if isinstance(row, dict) and "card" in row)
