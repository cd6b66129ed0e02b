"""No text of a record or a broker commands a terminal, or forges a line: all outputs, each with the same hostile text.

The text has an escape sequence, a bell, a line break with a line of the log after it, a carriage return, a NUL, a C1
control character, and characters that reverse the direction of the text after them.
"""

from __future__ import annotations

import http.client
import io
import json
import logging
import socket
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, Self

import pytest
from click.testing import CliRunner

import grete
from grete import _native
from grete._cli import main, session
from grete._cli.dlq import list as dlq_list
from grete._cli.dlq.show import _lines as lines_of_dead_letter
from grete._cli.doctor import command as doctor_command
from grete._cli.doctor.finding import Finding
from grete._cli.options import set_up_logging
from grete._cli.records import consume
from grete._cli.swarms import ps
from grete._cli.terminal import output
from grete._dlq import header_names
from grete._native import Messages
from grete.client import AclBinding, AclOperation, ResourceType, TopicDescription
from grete.client.cluster import ConfigEntry
from grete.client.groups import GroupDescription, GroupListing, Lag, MemberDescription
from grete.client.topics import PartitionDescription
from grete.errors import DecodeError
from grete.instrumentation._logging.default_handler import LOG_FORMAT
from grete.instrumentation._logging.error_report import summarize
from grete.instrumentation.emit import log_and_emit
from tests.unit.dispatcher_feed import DispatcherFeed
from tests.unit.record_batches import Record, batch

FORGED = "2026-01-01 00:00:00,000 ERROR   grete: forged"
HOSTILE = f"evil\x1b[2J\x07\n{FORGED}\r\x00\x9b31m\u202e\u2066\u2028\x85\x7f"
HOSTILE_TOPIC = HOSTILE.replace("\0", "")
UNSAFE = {chr(code) for code in (*range(32), 127, *range(128, 160), 0x61C, 0x200E, 0x200F)} | set(
    "\u2028\u2029\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
)


def check(text: str) -> None:
    """The text is on lines of Grete's own: none is forged, and none commands a terminal."""
    assert "forged" in text, f"the output has the text: {text!r}"
    assert not (set(text) - {"\n"}) & UNSAFE, ascii(text)
    assert not [line for line in text.split("\n") if line.startswith(FORGED[:10])], ascii(text)


def records() -> Messages:
    value, name = HOSTILE.encode(), header_names.PREFIX
    headers = [(HOSTILE, value), (f"{name}error-message", value)]
    return _native._testing_decode(batch([Record(0, value, value, 0, headers)]), HOSTILE_TOPIC, 3)


def dead_letter() -> Messages:
    text = HOSTILE.encode()
    headers = [
        (header_names.SOURCE_TOPIC, text),
        (header_names.SOURCE_PARTITION, b"0"),
        (header_names.SOURCE_OFFSET, b"7"),
        (header_names.SOURCE_GROUP, text),
        (header_names.ERROR_CLASS, text),
        (header_names.ERROR_MESSAGE, text),
        (HOSTILE, text),
    ]
    return _native._testing_decode(batch([Record(0, text, text, 0, headers)]), "orders.dlq", 0)


class Admin:
    """Admin client of a cluster in which everything has the hostile name."""

    def __init__(self, settings: object) -> None:
        assert settings

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def all_topics(self, timeout: float) -> list[TopicDescription]:
        return list(self.describe_topics([], timeout).values())

    def describe_topics(self, names: object, timeout: float) -> dict[str, TopicDescription]:
        partition = PartitionDescription(id=0, leader=1, leader_epoch=0, replicas=(1,), isr=(1,))
        return {HOSTILE: TopicDescription(HOSTILE, HOSTILE, False, (partition,))}

    def config(self, name: str, timeout: float) -> dict[str, ConfigEntry]:
        return {HOSTILE: ConfigEntry(HOSTILE, HOSTILE, "topic", False, False)}

    def groups(self, states: object, timeout: float) -> list[GroupListing]:
        return [GroupListing(HOSTILE, HOSTILE, HOSTILE, HOSTILE)]

    def describe_groups(self, names: object, timeout: float) -> dict[str, GroupDescription]:
        members = [
            MemberDescription(HOSTILE, HOSTILE, HOSTILE, HOSTILE, ((HOSTILE, 0),)),
            MemberDescription(HOSTILE, HOSTILE, HOSTILE, HOSTILE, ()),
        ]
        return {HOSTILE: GroupDescription(HOSTILE, HOSTILE, HOSTILE, HOSTILE, HOSTILE, 1, tuple(members))}

    def lag(self, group: str, timeout: float) -> dict[tuple[str, int], Lag]:
        return {(HOSTILE, 0): Lag(1, 2)}

    def offsets(self, wanted: list[tuple[str, int, object]], timeout: float) -> dict[tuple[str, int], int]:
        return {(topic, partition): 9 for topic, partition, _ in wanted}

    def describe_acls(self, *_: object, **__: object) -> list[AclBinding]:
        return [AclBinding(ResourceType.TOPIC, HOSTILE, f"User:{HOSTILE}", AclOperation.READ, host=HOSTILE)]


class Refusing(Admin):
    """Admin client whose broker refuses with a hostile text."""

    def describe_topics(self, names: object, timeout: float) -> dict[str, TopicDescription]:
        error = grete.KafkaError(HOSTILE, code=1, name="X")
        error.add_note(HOSTILE)
        raise error


class Consumer:
    """Consumer of one hostile record."""

    def __init__(self, settings: object) -> None:
        assert settings

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def partitions(self, topic: str) -> list[int]:
        return [3]

    def offsets(self, wanted: list[tuple[str, int, object]]) -> dict[tuple[str, int], int]:
        return {(HOSTILE_TOPIC, partition): 1 for _, partition, _ in wanted}

    def assign(self, partitions: object) -> None:
        assert partitions

    def poll(self, timeout: float, most: int) -> Messages:
        return records()

    def position(self, topic: str, partition: int) -> int:
        return 1


def command(*words: str, admin: type[Admin] = Admin) -> Callable[[pytest.MonkeyPatch], str]:
    def run(monkeypatch: pytest.MonkeyPatch) -> str:
        monkeypatch.setattr(session, "Admin", admin)
        result = CliRunner().invoke(main, [*words, "--bootstrap", "b:1"])
        assert result.exception is None or isinstance(result.exception, SystemExit), result
        return result.output

    return run


def consumed(*words: str) -> Callable[[pytest.MonkeyPatch], str]:
    def run(monkeypatch: pytest.MonkeyPatch) -> str:
        monkeypatch.setattr(consume, "Consumer", Consumer)
        monkeypatch.setattr(output, "is_terminal", lambda stream: stream is sys.stdout)
        result = CliRunner().invoke(main, ["consume", "t", "--until-end", "-q", "--bootstrap", "b:1", *words])
        assert result.exception is None, result.output
        return result.output

    return run


def logged(handler: Callable[[], logging.Handler], log: Callable[[logging.Logger], None]) -> str:
    logger = logging.Logger("grete.hostile")  # noqa: LOG001
    stream = io.StringIO()
    one = handler()
    assert isinstance(one, logging.StreamHandler)
    one.setStream(stream)
    logger.addHandler(one)
    log(logger)
    return stream.getvalue()


def of_command() -> logging.Handler:
    root = logging.getLogger()
    kept, root.handlers = root.handlers, []
    try:
        set_up_logging("INFO")
        (handler,) = root.handlers
        return handler
    finally:
        root.handlers = kept


def log_error(logger: logging.Logger) -> None:
    """As a handler of the user fails with the content of a record."""
    try:
        try:
            raise KeyError(HOSTILE)
        except KeyError:
            raise ValueError(HOSTILE) from None
    except ValueError as error:
        log_and_emit(None, logger, logging.ERROR, "job.failed", "%s: %s", HOSTILE, summarize(error), error=error)


def default_handler() -> logging.Handler:
    from grete._process.node import Formatter

    handler = logging.StreamHandler()
    handler.setFormatter(Formatter(LOG_FORMAT))
    return handler


def shown(*parts: Any) -> str:
    stream = io.StringIO()
    kept, sys.stdout = sys.stdout, stream
    try:
        output.show(*parts)
    finally:
        sys.stdout = kept
    return stream.getvalue()


def dead_letters_listed(monkeypatch: pytest.MonkeyPatch) -> str:
    from grete._cli.terminal.table import Table
    from grete._dlq.dead_letter import parse_dead_letter

    letter = parse_dead_letter(dead_letter()[0])
    assert letter is not None
    texts: list[str] = []
    fake = SimpleNamespace(
        as_json=False, rows=lambda fields, rows, if_empty: texts.append(shown(Table(fields, list(rows))))
    )
    dlq_list._table(fake, HOSTILE, iter([letter]), 10)  # type: ignore[arg-type]
    assert monkeypatch
    return "".join(texts)


def dead_letter_shown(form: str) -> str:
    from grete._dlq.dead_letter import parse_dead_letter

    message = dead_letter()[0]
    return shown(*lines_of_dead_letter(message, parse_dead_letter(message), form))  # type: ignore[arg-type]


def swarm() -> dict[str, Any]:
    node = {
        "id": 0, "pid": 1, "state": HOSTILE, "reason": HOSTILE, "restart_in": None, "quiet": False,
        "lanes": {HOSTILE: 1}, "lag": 1, "gil_wait": None, "memory": None, "rss": None, "pss": None, "restarts": 0,
        "oldest": {"handler": HOSTILE, "topic": HOSTILE, "partition": 0, "seconds": 1.0}, "last_death": HOSTILE,
        "uptime": 1.0, "waiting": HOSTILE,
    }  # fmt: skip
    return {
        "app": HOSTILE, "pid": 1, "uptime": 1.0, "stopping": False, "rolling": False, "quiet": False, "memory": None,
        "probes": [HOSTILE], "nodes": [node],
    }  # fmt: skip


def swarm_shown(monkeypatch: pytest.MonkeyPatch, *words: str) -> str:
    monkeypatch.setattr("grete._cli.swarms.ps.health_checks.work_problems", lambda _: [{"text": HOSTILE}])
    monkeypatch.setattr(ps, "find_swarms", lambda *_: ([swarm()], [OSError(HOSTILE)]))
    return CliRunner().invoke(main, ["ps", *words]).output


def doctor_shown(as_json: bool) -> str:
    stream = io.StringIO()
    kept, sys.stdout = sys.stdout, stream
    try:
        doctor_command._show(Finding("topic", HOSTILE, HOSTILE), as_json)
    finally:
        sys.stdout = kept
    return stream.getvalue()


def metrics() -> str:
    """Topics of consumers are labels: those of a swarm's supervisor are written by the same code."""
    name, _, _, labels = next(one for one in _native.metric_descriptors() if "topic" in one[3])
    text = _native.aggregate_metrics([], [(name, [HOSTILE] * len(labels), 1.0)], 5.0).decode()
    assert all(line.startswith(("#", name)) for line in text.splitlines()), text
    return text


def ready(path: str) -> str:
    """Answer of a probe of an App that misses a topic, which has lanes of a topic of this name, too."""
    feed = DispatcherFeed()
    health = _native.Health(feed.dispatcher, HOSTILE)
    health.set_missing([(HOSTILE_TOPIC, HOSTILE)])
    with socket.create_server(("127.0.0.1", 0)) as listener:
        health.serve([listener.fileno()])
        host, port = listener.getsockname()
        connection = http.client.HTTPConnection(host, port, timeout=30)
        try:
            connection.request("GET", path)
            text = connection.getresponse().read().decode()
        finally:
            connection.close()
            health.close()
    assert json.loads(text)
    return text


def process_title() -> str:
    from grete.instrumentation.process_title import ProcessTitle

    titles: list[str] = []
    made = ProcessTitle.__new__(ProcessTitle)
    library = SimpleNamespace(
        getproctitle=lambda: "python", getthreadtitle=lambda: "python", setproctitle=titles.append,
        setthreadtitle=lambda _: None,
    )  # fmt: skip
    made._library = library  # type: ignore[assignment]
    made._original_title, made._subject, made._state, made._numbers = None, "", HOSTILE, ""
    made.on_app_running({"app": HOSTILE, "node": None})  # type: ignore[arg-type]
    return titles[-1]


Output = Callable[[pytest.MonkeyPatch], str]

OUTPUTS: dict[str, Output] = {
    "one line of the core": lambda _: _native.one_line(HOSTILE),
    "log line of a command": lambda _: logged(of_command, lambda logger: logger.warning("said: %s", HOSTILE)),
    "log line without a set up": lambda _: logged(default_handler, lambda logger: logger.warning("said: %s", HOSTILE)),
    "traceback of a command": lambda _: logged(of_command, log_error),
    "traceback without a set up": lambda _: logged(default_handler, log_error),
    "error in one line": lambda _: summarize(ValueError(HOSTILE)),
    "error of decoding": lambda _: summarize(DecodeError(HOSTILE, topic=HOSTILE, partition=0, offset=1)),
    "refusal of a broker": command("topics", "describe", "t", admin=Refusing),
    "topics list": command("topics", "list"),
    "topics list --json": command("topics", "list", "--json"),
    "topics describe": command("topics", "describe", "t"),
    "topics describe --json": command("topics", "describe", "t", "--json"),
    "groups list": command("groups", "list"),
    "groups list --json": command("groups", "list", "--json"),
    "groups describe": command("groups", "describe", "g"),
    "groups describe --json": command("groups", "describe", "g", "--json"),
    "lag": command("lag", "g"),
    "acls list": command("acls", "list"),
    "acls list --json": command("acls", "list", "--json"),
    "consume to a terminal": consumed(),
    "consume with keys": consumed("--key-separator", "="),
    "consume --format": consumed("--format", "{topic} {key} {value} {headers}"),
    "consume --json": consumed("--json"),
    "dlq list": dead_letters_listed,
    "dlq show": lambda _: dead_letter_shown("auto"),
    "dlq show --as text": lambda _: dead_letter_shown("text"),
    "ps": swarm_shown,
    "ps --json": lambda monkeypatch: swarm_shown(monkeypatch, "--json"),
    "doctor": lambda _: doctor_shown(False),
    "doctor --json": lambda _: doctor_shown(True),
    "metrics": lambda _: metrics(),
    "readyz": lambda _: ready("/readyz"),
    "process title": lambda _: process_title(),
}


@pytest.mark.parametrize("name", OUTPUTS)
def test_a_hostile_text_forges_no_line_and_commands_no_terminal(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    check(OUTPUTS[name](monkeypatch))


def test_consume_writes_the_bytes_as_they_are_to_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consume, "Consumer", Consumer)
    result = CliRunner().invoke(main, ["consume", "t", "--until-end", "-q", "--bootstrap", "b:1"])
    assert result.stdout_bytes == HOSTILE.encode() + b"\n"


def test_the_check_sees_a_text_that_is_not_escaped() -> None:
    for text in (HOSTILE, f"x\n{FORGED}", "\x1bforged", "forged\u202e", "forged\ta", "nothing"):
        with pytest.raises(AssertionError):
            check(text)
