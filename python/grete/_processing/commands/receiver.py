"""Thread that reads the commands to this process, does what they say, and writes what has come of them."""

import json
import logging
import sys
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Protocol

from grete._plural import counted
from grete._process import stacks
from grete._processing.commands.verification import (
    MAX_LIFETIME,
    SIGNATURE,
    Command,
    Record,
    RefusedError,
    Rules,
    remember,
    verify,
)
from grete.client import Consumer, Producer
from grete.errors import ClosedError, GreteError
from grete.instrumentation.clock import monotonic
from grete.instrumentation.emit import log_and_emit
from grete.instrumentation.monitor import Monitor

if TYPE_CHECKING:
    from grete import _native

logger = logging.getLogger("grete")

COMMANDS = "grete.commands"
"""Topic of commands, by process."""
AUDIT = "grete.audit"
"""Topic of what was asked, refused and done, by time."""

# Seconds between attempts to read a topic that does not exist, or that must not be read.
_RETRY = 30.0
_CLOSE_TIMEOUT = 1.0
_MAX_DETAIL = 24_000
# Refused records: a burst, and then so many a second, are audited. Others are counted.
_BURST, _RATE = 50.0, 1.0
_CONSUMER = {
    "auto.offset.reset": "latest",
    "enable.auto.commit": "false",
    "isolation.level": "read_committed",
    "fetch.max.wait.ms": "5000",
    "fetch.max.bytes": "65536",
    "max.partition.fetch.bytes": "65536",
}
_PRODUCER = {
    "acks": "all",
    "buffer.memory": "524288",
    "batch.size": "16384",
    "delivery.timeout.ms": "15000",
    "request.timeout.ms": "10000",
    "max.block.ms": "5000",
}
_NOT_INHERITED = frozenset({"transactional.id", "transaction.timeout.ms", "group.id", "group.instance.id"})


class Control(Protocol):
    """Interface of a run for commands."""

    def stop(self, timeout: float | None = None) -> None:
        """Begins a graceful stop."""

    def quiet(self) -> None:
        """Hands out no more records."""

    def scale(self, workers: int) -> None:
        """Sets the number of worker threads."""

    def seek(self, topic: str, partition: int, offset: int | str | datetime, group: str | None) -> None:
        """Moves the position of a partition."""

    @property
    def clients(self) -> "Mapping[str, _native.Client]":
        """Clients by group."""


class CommandReceiver:
    """Commands to one process, from `start` to `close`."""

    def __init__(
        self,
        facts: Mapping[str, Any],
        settings: Iterable[tuple[str, str]],
        secret: str,
        control: Control,
        monitor: Monitor | None,
    ) -> None:
        """`facts`: identity of the process. `secret` "": commands need no signature."""
        self._process = {name: facts[name] for name in ("id", "app", "node", "host", "pid")}
        self._settings = {name: value for name, value in settings if name not in _NOT_INHERITED}
        self._rules = Rules(facts["id"], secret)
        self._control = control
        self._monitor = monitor
        self._seen: dict[str, int] = {}
        self._allowance, self._updated_at, self._left_out = _BURST, monotonic(), 0
        self._ended = threading.Event()
        self._lock = threading.Lock()
        self._consumer: Consumer | None = None
        self._producer: Producer | None = None
        self._has_failed = False
        self._thread = threading.Thread(target=self._run, name="grete-commands", daemon=True)

    def start(self) -> None:
        """Starts the thread."""
        self._thread.start()

    def close(self) -> None:
        """Ends the thread, and waits for the delivery of what it has written."""
        with self._lock:
            self._ended.set()
            consumer = self._consumer
        if consumer is not None:
            consumer.close(_CLOSE_TIMEOUT)
        self._thread.join(_CLOSE_TIMEOUT)
        producer, self._producer = self._producer, None
        if producer is not None:
            producer.close(_CLOSE_TIMEOUT)

    def _run(self) -> None:
        while not self._ended.is_set():
            try:
                self._read()
            except ClosedError:
                return
            except GreteError as error:
                self._on_unreadable(error)
                self._ended.wait(_RETRY)

    def _read(self) -> None:
        consumer = Consumer(self._settings | _CONSUMER)
        with self._lock:
            if self._ended.is_set():
                consumer.close(0.0)
                return
            self._consumer = consumer
        with consumer:
            # Those of the time in which this began, too: the name of the process is new, and none comes twice.
            since = datetime.now(UTC) - timedelta(milliseconds=MAX_LIFETIME)
            consumer.assign([(COMMANDS, partition, since) for partition in consumer.partitions(COMMANDS)])
            key = self._rules.target.encode()
            for messages in consumer:
                for message in messages:
                    if message.key == key:  # others belong to other processes
                        self._handle(message.value or b"", message.headers)

    def _handle(self, value: bytes, headers: Sequence[tuple[str, bytes | None]]) -> None:
        now = int(time.time() * 1000)
        signature = next((one for name, one in headers if name == SIGNATURE), None)
        try:
            command = verify(now, Record(value, signature), self._seen, self._rules)
        except RefusedError as refusal:
            self._refuse(refusal)
            return
        remember(self._seen, command, now)
        try:
            text, detail = self._do(command)
        except Exception as error:
            # As the answer: who has asked is not at this machine.
            self._answer(command, "failed", f"{error}" if isinstance(error, GreteError) else repr(error))
            self._log(logging.WARNING, "app.command", command, f"failed: {error}")
            return
        self._answer(command, "done", text, detail)
        self._log(logging.INFO, "app.command", command, text)
        if command.action in ("stop", "restart"):
            # The answer first: the stop closes the connection that it takes.
            self._flush()
            self._control.stop()

    def _do(self, command: Command) -> tuple[str, str]:
        """Does what the command says. Returns what was done, and details."""
        given = command.arguments
        if command.action == "quiet":
            self._control.quiet()
            return "is quiet: running handlers go on, and no more records are handed out", ""
        if command.action == "stop":
            if self._process["node"] is not None:
                raise GreteError("its supervisor would start the node again: send restart, or stop the supervisor")
            return "stops: running handlers end, and offsets are committed", ""
        if command.action == "restart":
            if self._process["node"] is None:
                raise GreteError("it has no supervisor that would start it again: send stop, and start it by hand")
            return "stops: its supervisor starts the node again", ""
        if command.action == "dump_stacks":
            return _dump_stacks()
        if command.action == "scale":
            self._control.scale(given["workers"])
            return f"{counted(given['workers'], 'worker')} from now on; surplus ones end after their job", ""
        if command.action == "seek":
            place = f"{given['topic']}[{given['partition']}]"
            self._control.seek(given["topic"], given["partition"], given["offset"], given.get("group"))
            return f"{place} goes on from {given['offset']}", ""
        return self._set_paused(given, is_paused=command.action == "pause"), ""

    def _set_paused(self, given: Mapping[str, Any], *, is_paused: bool) -> str:
        changed = []
        for group, client in self._control.clients.items():
            if given.get("group") not in (None, group):
                continue
            places = [
                (topic, partition)
                for topic, partition in client.assignment()
                if topic == given["topic"] and given.get("partition") in (None, partition)
            ]
            if places:
                (client.pause if is_paused else client.resume)(places)
                changed += [f"{topic}[{partition}]" for topic, partition in places]
        if not changed:
            place = given["topic"] + ("" if given.get("partition") is None else f"[{given['partition']}]")
            raise GreteError(f"{place} is not assigned to this process")
        return f"{'paused' if is_paused else 'resumed'}: {', '.join(changed)}"

    def _refuse(self, refusal: RefusedError) -> None:
        """Audits a refused record. A flood of them must not become a flood of answers."""
        now = monotonic()
        self._allowance = min(_BURST, self._allowance + (now - self._updated_at) * _RATE)
        self._updated_at = now
        if self._allowance < 1:
            self._left_out += 1
            return
        self._allowance -= 1
        text = str(refusal) + (f"; {self._left_out} more were refused before" if self._left_out else "")
        self._left_out = 0
        self._answer(refusal.command, "refused", text)
        self._log(logging.WARNING, "app.command_refused", refusal.command, text)

    def _answer(self, command: Command | None, result: str, text: str, detail: str = "") -> None:
        record = audit_record(int(time.time() * 1000), command, self._process, result, text, detail)
        try:
            if self._producer is None:
                self._producer = Producer(self._settings | _PRODUCER)
            self._producer.produce(AUDIT, record, key=str(self._process["id"]).encode())
        except GreteError as error:
            self._on_unreadable(error)

    def _flush(self) -> None:
        if self._producer is not None:
            self._producer.flush(_CLOSE_TIMEOUT)

    def _log(self, level: int, event: str, command: Command | None, text: str) -> None:
        action = command.action if command is not None else "unknown"
        by = command.by if command is not None else "unknown"
        line = "command %s of %s: %s" if event == "app.command" else "command %s of %s was refused: %s"
        fields = {"action": action, "by": by, "text": text}
        log_and_emit(self._monitor, logger, level, event, line, action, by, text, fields=fields)

    def _on_unreadable(self, error: GreteError) -> None:
        if self._has_failed or self._ended.is_set():
            return
        self._has_failed = True
        log_and_emit(
            self._monitor,
            logger,
            logging.WARNING,
            "app.no_commands",
            "commands of grete web are not read or not answered: %s; the App goes on without them. Create their "
            "topics: grete web setup",
            error,
            error=error,
            traceback=False,
        )


def audit_record(
    at: int, command: Command | None, process: Mapping[str, Any], result: str, text: str, detail: str = ""
) -> bytes:
    """Returns a record of `grete.audit`. `result`: "asked", "done", "failed" or "refused"."""
    content: dict[str, Any] = {"v": 1, "at": at, "process": dict(process), "result": result, "text": text[:1000]}
    if command is not None:
        content |= {
            "command": command.id,
            "action": command.action,
            "by": command.by,
            "arguments": {name: str(value)[:300] for name, value in command.arguments.items()},
        }
    if detail:
        content["detail"] = detail[:_MAX_DETAIL]
    return json.dumps(content).encode()


def _dump_stacks() -> tuple[str, str]:
    stacks.dump_stacks()
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    found = stacks.of_threads(sys._current_frames())  # noqa: SLF001
    parts = [f"{names.get(ident, ident)}\n{stack}" for ident, stack in found.items() if ident != threading.get_ident()]
    return f"{len(parts)} stacks, which are in its log, too", "\n".join(parts).encode("utf-8", "replace").decode()
