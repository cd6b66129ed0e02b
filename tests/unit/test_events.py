"""The registry of events: whole, true, and in the documentation."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from grete import _native
from grete.instrumentation.events import EVENTS, MANAGER
from tests.unit.event_page import PAGE, PARTS, page

ROOT = Path(__file__).parents[2]
REGISTRY = ROOT / "python" / "grete" / "instrumentation" / "events.py"
DOTTED = re.compile(r"[a-z][a-z_]*(\.[a-z][a-z_]*)+")
FAMILIES = {name.split(".")[0] for name in EVENTS}
# Called like events, and none.
OTHERS = {"swarm.cpus", "swarm.max_rss", "swarm.deaths", "swarm.restarts", "error.type"}
# Second names of settings.
OTHERS |= {"fetch.message.max.bytes", "fetch.wait.max.ms"}
# Settings of brokers.
OTHERS |= {"group.consumer.heartbeat.interval.ms", "group.consumer.min.heartbeat.interval.ms"}


def settings() -> set[str]:
    roles = (
        _native.config_entries([("bootstrap.servers", "localhost:9092")], role)
        for role in ("consumer", "producer", "admin")
    )
    return {name for entries in roles for name, _, _ in entries}


def python_names() -> Iterator[tuple[str, str]]:
    """(Text that looks like an event's name, where), in all of grete but the registry."""
    for path in (ROOT / "python" / "grete").rglob("*.py"):
        if path == REGISTRY:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and DOTTED.fullmatch(node.value):
                yield node.value, f"{path}:{node.lineno}"


def rust_names() -> Iterator[tuple[str, str]]:
    for path in (ROOT / "crates" / "grete-client" / "src").rglob("*.rs"):
        if "config" in path.parts or "tests" in path.parts or path.stem == "tests":
            continue
        for found in re.finditer(r'"([a-z_.]+)"', path.read_text().split("#[cfg(test)]")[0]):
            if DOTTED.fullmatch(found[1]):
                yield found[1], str(path)


def logged_names() -> Iterator[tuple[str, str]]:
    """What is logged with `extra={"event": ...}` and a name that is no variable."""
    for path in (ROOT / "python" / "grete").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Dict):
                for key, value in zip(node.keys, node.values, strict=True):
                    if isinstance(key, ast.Constant) and key.value == "event" and isinstance(value, ast.Constant):
                        yield str(value.value), f"{path}:{node.lineno}"


def test_every_event_that_is_used_is_registered() -> None:
    known = EVENTS.keys() | settings() | OTHERS
    used = [*logged_names(), *(found for found in python_names() if found[0].split(".")[0] in FAMILIES)]
    assert len(used) > 40
    assert [found for found in used if found[0] not in known] == []
    rust_events = list(rust_names())
    assert len(rust_events) > 40
    assert [found for found in rust_events if found[0] not in known] == []


def test_every_event_that_is_registered_is_used() -> None:
    used = {name for name, _ in (*python_names(), *rust_names())}
    assert EVENTS.keys() - used == set()


def test_the_documentation_is_made_of_the_registry() -> None:
    assert PAGE.read_text() == page(), "python -m tests.unit.event_page"
    assert [name for part in PARTS.values() for name in part] == list(EVENTS)


def test_what_is_described_makes_sense() -> None:
    for name, described in EVENTS.items():
        assert DOTTED.fullmatch(name)
        assert described.description
        assert all(DOTTED.fullmatch(f"a.{field}") for field in described.fields), name
        assert described.optional <= set(described.fields)
        kinds = {kind for kinds in described.types.values() for kind in re.findall(r"\w+", kinds)}
        objects = {"BaseException", "Message", "Messages", "object", "tuple", "Family"}
        assert kinds <= objects | {"str", "int", "float", "bool", "list", "dict", "None"}, name


def emitted_events() -> Iterator[tuple[str, set[str], str]]:
    """(Event, fields, where) of each call of `log_and_emit` with literal event and fields. The Manager has its own."""
    for path in (ROOT / "python" / "grete").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Call) or not ast.unparse(node.func).endswith(("log_and_emit", "self._emit")):
                continue
            names = [
                arg.value for arg in node.args if isinstance(arg, ast.Constant) and arg.value in EVENTS.keys() - MANAGER
            ]
            keywords = {keyword.arg: keyword.value for keyword in node.keywords}
            fields = keywords.get("fields", ast.Dict([], []))
            if len(names) == 1 and isinstance(fields, ast.Dict):
                keys = {str(key.value) for key in fields.keys if isinstance(key, ast.Constant)}
                yield names[0], keys | ({"error"} & keywords.keys()), f"{path}:{node.lineno}"


def test_emitted_events_have_the_described_fields() -> None:
    found = list(emitted_events())
    assert len(found) > 20
    for name, fields, where in found:
        described = EVENTS[name]
        if name != "swarm.memory":  # its fields are a dict's
            assert set(described.fields) - described.optional <= fields <= set(described.fields), where


def test_no_two_events_have_the_same_method() -> None:
    assert len({name.replace(".", "_") for name in EVENTS}) == len(EVENTS)
