"""Pages and `grete top` beside reports, errors and audits that were written to harm."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.testclient import TestClient

from grete._cli.top.frame import make_frame
from grete._cli.top.trends import Trends
from grete._processing.commands.receiver import audit_record
from grete._web.kafka.decode import shown
from grete._web.state.store import Store
from tests.unit.web.simulated_reports import error, facts, lane, report, settings
from tests.unit.web.test_guard import client, parts

__all__ = ["parts"]

NOW = 1_700_000_000_000
HUGE: list[Any] = [2**31, 2**53 + 1, 2**62, 2**63, 10**30, 10**400, -1, 1e300, 1e999, 0.5, True, None, "5", [], {}]
TEXTS: list[Any] = ["\ud800", "a\udfffb", "\0", "\x1b[2J", "\u202egpj", "x" * 100_000, "", None, 5, ["x"]]


@pytest.fixture
def store(parts: Any) -> Iterator[Store]:
    yield parts.store
    parts.store.__init__()


def pages(browser: TestClient, store: Store) -> None:
    """Loads each page that shows what was reported."""
    paths = ["/", "/processes", "/errors", "/audit", "/series?range=1h"]
    paths += [f"/errors/{group.id}" for group in store.errors.groups()]
    for path in paths:
        for prefix in ("/api",) if path.startswith("/series") else ("", "/api"):
            full = "/api/dashboard" if (prefix, path) == ("/api", "/") else prefix + path
            found = browser.get(full)
            assert found.status_code == 200, (full, found.text[:2000])
    for process in store.fleet:
        for prefix in ("", "/api"):
            found = browser.get(f"{prefix}/process", params={"id": process.facts.id})
            assert found.status_code == 200, found.text[:2000]
    text = "\n".join(map(str, make_frame(store.fleet, Trends(), NOW)))
    assert text.encode()


def add(store: Store, *, reports: Any = (), errors: Any = (), audits: Any = (), kept: Any = ()) -> None:
    for value in reports:
        store.add_report(b"key", value, NOW, NOW)
    for value in kept:
        store.add_report(b"key#settings", value, NOW, NOW)
    for number, value in enumerate(errors):
        store.add_error(value, (0, number + 1_000_000))
    for number, value in enumerate(audits):
        store.add_audit(value, (0, number + 1_000_000))
    store.measure(NOW)


@pytest.mark.parametrize("value", HUGE, ids=lambda value: str(value)[:12])
def test_numbers_of_any_size_break_no_page(parts: Any, store: Store, value: Any) -> None:
    numbers = ("seq", "at", "every", "uptime", "dropped", "rss", "cpu", "fds", "workers", "busy", "gil_wait", "lag",
               "loop_wait", "fetched_bytes")  # fmt: skip
    fields = ("position", "committable", "end", "lag", "oldest", "in_flight", "attempt", "running", "paused")
    row = lane() | dict.fromkeys(fields, value) | {"queued": value}
    content = json.loads(report(process=facts(started=value, pid=value, node=value)))
    names = content["names"]
    content["lanes"] = [[names.index("shop"), names.index("orders"), names.index("charge"), *list(row.values())[3:]]]
    content |= dict.fromkeys(numbers, value)
    content |= {"totals": [value] * 10, "jobs": [["charge", "orders", 0, value, value]]}
    content["stacks"] = [["text", "stack", value]]
    content["groups"][0] |= {"since": value, "generation": value, "partitions": value}
    own = json.dumps(content).encode()
    add(store, reports=[own, own], errors=[error(at=value, offset=value, partition=value, left_out=value)])
    process = facts()
    entry = json.loads(audit_record(NOW, None, process, "done", "x")) | {"at": value}
    add(store, audits=[json.dumps(entry).encode()])
    pages(client(parts), store)


@pytest.mark.parametrize("value", TEXTS, ids=lambda value: repr(value)[:12])
def test_texts_of_any_kind_break_no_page(parts: Any, store: Store, value: Any) -> None:
    process = facts(id=value, app=value, host=value, grete=value, python=value)
    whole = json.loads(report(process=process, problems=[[value, value]], jobs=[[value, value, 0, 1, None]]))
    whole |= {"names": [value] * 3, "stacks": [[value, value, NOW]], "state": value}
    whole["groups"][0] |= {"group": value, "state": value, "login_failure": value}
    audit = json.loads(audit_record(NOW, None, process, "done", "x")) | {"text": value, "by": value, "detail": value}
    kept = json.loads(settings(handler=value, group=value, location=value)) | {"process": process}
    kept |= {"settings": [[value, value, value]]}
    add(
        store,
        reports=[json.dumps(whole).encode()],
        kept=[json.dumps(kept).encode()],
        errors=[error(message=value, handler=value, traceback=value, process=process, **{"class": value})],
        audits=[json.dumps(audit | {"arguments": {"x": value}}).encode()],
    )
    pages(client(parts), store)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=3),
        max_leaves=12,
    ),
    st.sampled_from(sorted(json.loads(report()))),
)
def test_any_json_in_any_field_is_parsed_or_counted(value: object, name: str) -> None:
    store = Store()
    add(store, reports=[json.dumps(json.loads(report()) | {name: value}).encode()])
    assert len(store.fleet) + store.refused == 1
    assert "\n".join(map(str, make_frame(store.fleet, Trends(), NOW))).encode()


def test_halves_of_characters_in_records_are_shown() -> None:
    for value in (b'{"a": "\\ud800"}', b'["\\udfff"]', b'"\\ud83d"'):
        found = shown(value)
        assert found.form == "json"
        assert found.text.encode()
        assert found.line.encode()
