"""Check of commands: what is forged, late, repeated, for others or malformed is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grete._config.layers import mask, parse
from grete._processing.commands.receiver import audit_record
from grete._processing.commands.verification import (
    ACTIONS,
    MAX_LIFETIME,
    Command,
    Record,
    RefusedError,
    Rules,
    remember,
    sign,
    verify,
)
from grete._web.state.audit import parse_audit
from grete._web.state.report import InvalidReportError
from grete._web.state.store import Store
from grete.errors import ConfigError

NOW = 1_700_000_000_000
SECRET = "a secret of the shop's own"
RULES = Rules("shop/host-1/7-abc", SECRET)


def command(**more: Any) -> Command:
    fields: dict[str, Any] = {
        "id": "1" * 32,
        "target": RULES.target,
        "action": "pause",
        "by": "ann",
        "issued": NOW,
        "expires": NOW + 60_000,
        "arguments": {"topic": "orders", "partition": 3, "group": "shop"},
    }
    return Command(**fields | more)


def signed(value: bytes, secret: str = SECRET) -> Record:
    return Record(value, sign(secret, value))


def refusal(record: Record, now: int = NOW, seen: dict[str, int] | None = None, rules: Rules = RULES) -> str:
    with pytest.raises(RefusedError) as caught:
        verify(now, record, seen or {}, rules)
    return str(caught.value)


def changed(**more: object) -> bytes:
    return json.dumps(json.loads(command().encode()) | more).encode()


def test_a_signed_command_is_obeyed_once() -> None:
    seen: dict[str, int] = {}
    record = signed(command().encode())
    found = verify(NOW, record, seen, RULES)
    assert found == command()
    remember(seen, found, NOW)
    assert refusal(record, NOW + 1, seen) == "it came before"
    assert refusal(record, NOW + 59_999, seen) == "it came before"


def test_a_forged_command_is_refused_before_it_is_read() -> None:
    value = command().encode()
    assert refusal(Record(value)) == "it is not signed"
    assert "another secret" in refusal(signed(value, "the secret of another shop"))
    assert "another secret" in refusal(Record(value.replace(b"pause", b"quiet"), sign(SECRET, value)))
    assert "another secret" in refusal(Record(b"[" * 8000, b"0" * 64))
    assert "another secret" in refusal(Record(value, b"\xff\xfe"))
    # Another use of the same secret signs no commands.
    import hashlib
    import hmac

    assert "another secret" in refusal(
        Record(value, hmac.new(SECRET.encode(), value, hashlib.sha256).hexdigest().encode())
    )


def test_an_expired_or_early_command_is_refused() -> None:
    record = signed(command().encode())
    assert "has expired 0.0 s ago" in refusal(record, NOW + 60_000)
    assert "has expired 3600.0 s ago" in refusal(record, NOW + 3_660_000)
    assert "60 s in the future" in refusal(record, NOW - 60_000)
    for expires in (NOW + MAX_LIFETIME + 1, NOW, NOW - 1):
        assert "valid for longer" in refusal(signed(command(expires=expires).encode()))


def test_a_command_to_another_process_is_refused() -> None:
    assert refusal(signed(command(target="shop/host-1/8-def").encode())) == "it is for another process"


def test_without_a_secret_a_signature_does_not_matter() -> None:
    rules = Rules(RULES.target)
    for record in (Record(command().encode()), signed(command().encode(), "the secret of another shop")):
        assert verify(NOW, record, {}, rules) == command()


@pytest.mark.parametrize(
    "more",
    [
        {"v": 2},
        {"v": None},
        {"id": 7},
        {"id": ""},
        {"id": "x" * 301},
        {"by": None},
        {"issued": True},
        {"issued": -1},
        {"expires": "soon"},
        {"expires": 2**70},
        {"arguments": []},
        {"arguments": None},
        {"action": "exec"},
        {"action": "__class__"},
        {"action": "seek", "arguments": {"topic": "orders", "partition": 1}},
        {"action": "seek", "arguments": {"topic": "orders", "offset": 5}},
        {"action": "seek", "arguments": {"topic": "orders", "partition": 1, "offset": "end"}},
        {"action": "seek", "arguments": {"topic": "orders", "partition": 1, "offset": -1}},
        {"arguments": {"partition": 1}},
        {"arguments": {"topic": "", "partition": 1}},
        {"arguments": {"topic": "orders", "partition": "1"}},
        {"arguments": {"topic": "orders", "partition": 2**31}},
        {"arguments": {"topic": "orders", "group": 5}},
        {"arguments": {"topic": "orders", "shell": "rm"}},
        {"action": "stop"},
        {"action": "scale", "arguments": {}},
        {"action": "scale", "arguments": {"workers": 0}},
        {"action": "scale", "arguments": {"workers": 10_001}},
        {"action": "scale", "arguments": {"workers": "7"}},
        {"action": "scale", "arguments": {"workers": True}},
        {"action": "scale", "arguments": {"workers": 7, "topic": "orders"}},
    ],
)
def test_what_is_no_command_is_refused(more: dict[str, object]) -> None:
    refusal(signed(changed(**more)))


@pytest.mark.parametrize("value", [b"", b"7", b"null", b"[" * 5000, b"{}", b'{"v": 1}', b"\xff" * 20, b"x" * 9000])
def test_what_is_no_json_is_refused(value: bytes) -> None:
    refusal(signed(value))


@given(st.binary(max_size=300), st.none() | st.binary(max_size=80))
def test_any_bytes_are_refused_and_raise_nothing_else(value: bytes, signature: bytes | None) -> None:
    for rules in (RULES, Rules(RULES.target)):
        refusal(Record(value, signature), rules=rules)


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(), lambda inner: st.lists(inner)
       | st.dictionaries(st.text(), inner), max_leaves=10), st.sampled_from(sorted(command().__slots__)))  # fmt: skip
def test_any_field_is_checked(value: object, name: str) -> None:
    try:
        found = verify(NOW, signed(changed(**{name: value})), {}, RULES)
    except RefusedError:
        return
    assert found.target == RULES.target
    assert found.action in ACTIONS
    assert NOW < found.expires <= found.issued + MAX_LIFETIME


def test_remembered_ids_are_bounded() -> None:
    seen: dict[str, int] = {}
    for number in range(500):
        at = NOW + number * 1_000
        remember(seen, command(id=str(number), expires=at + 60_000), at)
    assert len(seen) <= 60
    many = {str(number): NOW + 60_000 for number in range(10_000)}
    assert "too many commands" in refusal(signed(command().encode()), seen=many)
    later = signed(command(expires=NOW + 120_000).encode())
    assert verify(NOW + 60_001, later, many, RULES), "expired ones are free"
    remember(many, command(expires=NOW + 120_000), NOW + 60_001)
    assert list(many) == [command().id], "expired ones are forgotten"


def test_a_secret_is_long_and_is_never_shown() -> None:
    with pytest.raises(ConfigError, match="at least 16 characters") as caught:
        parse("web_commands_secret", "tooshort", "code")
    assert "tooshort" not in str(caught.value)
    assert mask("web_commands_secret", SECRET) != SECRET


def test_the_audit_has_what_was_asked_and_is_untrusted_itself() -> None:
    process = {"id": "shop/host-1/7-abc", "app": "shop", "node": None, "host": "host-1", "pid": 7}
    entry = parse_audit(audit_record(NOW, command(), process, "done", "paused", "stack " * 9000))
    assert (entry.by, entry.action, entry.result, entry.process) == ("ann", "pause", "done", process["id"])
    assert dict(entry.arguments) == {"topic": "orders", "partition": "3", "group": "shop"}
    assert len(entry.detail) <= 24_000
    assert parse_audit(audit_record(NOW, None, process, "refused", "not signed")).by == ""
    for value in (b"", b"{}", b'{"v":1,"process":{},"result":"won"}', b'{"v":1,"process":{},"result":["done"]}'):
        with pytest.raises(InvalidReportError):
            parse_audit(value)
    store = Store()
    for _ in range(2):  # read again after a reconnection
        store.add_audit(audit_record(NOW, command(), process, "done", "x"), (0, 5))
    store.add_audit(b"{", (0, 6))
    assert (len(store.audit.newest()), store.refused) == (1, 1)
