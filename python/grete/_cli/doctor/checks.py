"""Steps of `grete doctor`, from the name of a broker to the topics and groups of an App.

Python's own sockets are used only where the native client has no error of its own: a name that has no address, a port
that refuses. All else is the client's own typed error, so that the doctor says what the App would say.
"""

import contextlib
import shlex
import socket
import threading
import time
import uuid
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from grete import errors
from grete.client import AclOperation, Admin
from grete.client.cluster import Broker
from grete.errors import AuthenticationError, AuthorizationError, GreteError, KafkaError, NotKafkaError, TlsError

# Brokers of the metadata that are checked. Each that cannot be reached costs up to the timeout.
_MAX_BROKERS = 50


@dataclass(frozen=True, slots=True)
class Finding:
    """Result of one step. `problem`: what is wrong, then the cure; None: the step is ok."""

    step: str
    subject: str
    problem: str | None = None
    seconds: float = 0.0

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return self.problem is None


class Doctor:
    """One examination. `timeout`: seconds for each step at each address."""

    def __init__(self, settings: Mapping[str, Any], timeout: float) -> None:
        self._settings = dict(settings)
        self._timeout = timeout
        protocol = str(settings.get("security.protocol", "PLAINTEXT")).upper()
        self._encrypts = protocol.endswith("SSL")
        self._logs_in = protocol.startswith("SASL")

    def check_settings(self) -> None:
        """Makes a client, which reads its files and opens no connection before the first call. Raises ConfigError."""
        with self._admin(str(self._settings["bootstrap.servers"])):
            pass

    def examine(self, topics: list[str], groups: list[str], written: list[str]) -> Iterator[Finding]:
        """Yields the finding of each step: `topics` are read, `written` are written.

        A step that cannot be taken, because one before it failed, has none."""
        usable: str | None = None
        brokers: tuple[Broker, ...] = ()
        for address in _addresses(str(self._settings["bootstrap.servers"])):
            found = list(self._reach(address, "dns", "tcp"))
            yield from found
            if not found[-1].ok:
                continue
            known = yield from self._connect(address)
            if known is not None and usable is None:
                usable, brokers = address, known
        if usable is None:
            return
        if not (yield from self._check_advertised(brokers)):
            return
        yield from self._check_names(topics, groups, written)

    def _reach(self, address: str, *steps: str) -> Iterator[Finding]:
        """Looks up the name and connects; `steps`: the names of these two."""
        host, _, port = address.rpartition(":")
        host = host.strip("[]")
        started = time.monotonic()
        problem = _look_up(host, self._timeout)
        yield Finding(steps[0], address, problem, time.monotonic() - started)
        if problem is None:
            started = time.monotonic()
            yield Finding(steps[1], address, self._connects(host, int(port)), time.monotonic() - started)

    def _connects(self, host: str, port: int) -> str | None:
        try:
            socket.create_connection((host, port), timeout=self._timeout).close()
        except TimeoutError:
            return (
                f"{host}:{port} does not answer within {self._timeout:g} s: open the port in the firewall, or correct "
                "the address"
            )
        except ConnectionRefusedError:
            return f"nothing listens at {host}:{port}: start the broker, or correct the port"
        except OSError as error:
            return f"{host}:{port} cannot be reached ({error.strerror or error}): correct the route or the address"
        return None

    def _connect(self, address: str) -> Generator[Finding, None, tuple[Broker, ...] | None]:
        """Connects as the settings say and asks for the brokers, which are returned; None: a step failed."""
        started = time.monotonic()
        step, problem = "metadata", None
        brokers: tuple[Broker, ...] | None = None
        try:
            with self._admin(address) as admin:
                brokers = admin.cluster(timeout=self._timeout).brokers
        except GreteError as error:
            step, problem = step_of(error), str(error)
        passed = [
            *(["tls"] if self._encrypts else []),
            "api_versions",
            *(["sasl"] if self._logs_in else []),
            "metadata",
        ]
        # The steps before the one that failed have passed.
        for one in passed[: passed.index(step)] if step in passed else []:
            yield Finding(one, address)
        yield Finding(step, address, problem, time.monotonic() - started)
        return brokers

    def _check_advertised(self, brokers: tuple[Broker, ...]) -> Generator[Finding, None, bool]:
        """Looks whether each broker can be reached from here at its advertised address. Returns whether one can."""
        any_usable = False
        for broker in brokers[:_MAX_BROKERS]:
            host = f"[{broker.host}]" if ":" in broker.host else broker.host
            address = f"{host}:{broker.port}"
            started = time.monotonic()
            problem = next((found.problem for found in self._reach(address, "", "") if found.problem), None)
            if problem is None:
                *_, last = self._connect(address)
                problem = last.problem
            any_usable |= problem is None
            if problem is not None:
                problem = (
                    f"broker {broker.id} advertises {address}, which cannot be used from here ({problem}); set "
                    f"advertised.listeners of broker {broker.id} to an address that clients reach"
                )
            yield Finding("advertised", f"broker {broker.id}", problem, time.monotonic() - started)
        return any_usable

    def _check_names(self, topics: list[str], groups: list[str], written: list[str]) -> Iterator[Finding]:
        with self._admin(str(self._settings["bootstrap.servers"])) as admin:
            for topic in dict.fromkeys([*topics, *written]):
                needed = [
                    operation
                    for operation, names in ((AclOperation.READ, topics), (AclOperation.WRITE, written))
                    if topic in names
                ]
                yield self._ask("topic", topic, partial(self._check_topic, admin, topic, needed))
            for group in groups:
                yield self._ask("group", group, partial(self._check_group, admin, group))

    def _check_topic(self, admin: Admin, topic: str, needed: list[AclOperation]) -> str | None:
        """Returns what the client may not do with a topic; None: it may do what is needed."""
        try:
            allowed = admin.describe_topic(topic, timeout=self._timeout).operations
        except AuthorizationError:
            allowed = frozenset()  # each of the needed operations implies Describe
        missing = [] if allowed is None else [operation for operation in needed if operation not in allowed]
        return "; ".join(self._needs(operation, "topic", topic) for operation in missing) or None

    def _check_group(self, admin: Admin, group: str) -> str | None:
        """Returns what the client may not do with a group; None: it may be a member.

        A member that does not exist is removed, which needs what members need and changes nothing.
        """
        try:
            admin.remove_members(group, [f"grete-doctor-{uuid.uuid4()}"], timeout=self._timeout)
        except AuthorizationError:
            return self._needs(AclOperation.READ, "group", group)
        except KafkaError as error:
            if error.name not in ("UNKNOWN_MEMBER_ID", "GROUP_ID_NOT_FOUND"):
                raise
        return None

    def _needs(self, operation: AclOperation, kind: str, name: str) -> str:
        verb = operation.name.capitalize()
        user = self._settings.get("sasl.username") or "NAME"
        words = ["grete", "acls", "create", "--allow-principal", f"User:{user}", "--operation", verb, f"--{kind}", name]
        return f"this client needs {verb} on {kind} {name}: {shlex.join(words)}"

    def _ask(self, step: str, subject: str, ask: Callable[[], str | None]) -> Finding:
        started = time.monotonic()
        problem = None
        try:
            problem = ask()
        except KafkaError as error:
            problem = _refusal(subject, error)
        except GreteError as error:
            problem = str(error)
        return Finding(step, subject, problem, time.monotonic() - started)

    @contextlib.contextmanager
    def _admin(self, address: str) -> Iterator[Admin]:
        with Admin({**self._settings, "bootstrap.servers": address}) as admin:
            yield admin


def step_of(error: GreteError) -> str:
    """Returns the step that a client's error belongs to."""
    match error:
        case TlsError():
            return "tls"
        case NotKafkaError():
            return "api_versions"
        case AuthenticationError():
            return "sasl"
        case errors.TimeoutError():
            return "api_versions"
    return "metadata"


def _refusal(subject: str, error: KafkaError) -> str | None:
    """Returns the problem of a topic or group that a broker refuses; None: the answer is no problem."""
    if error.name == "UNKNOWN_TOPIC_OR_PARTITION":
        return f"topic {subject} does not exist: create it with `grete topics create {subject}`, or correct the name"
    if error.name == "GROUP_ID_NOT_FOUND":
        return None  # a group exists from its first member on
    return str(error)


def _addresses(text: str) -> list[str]:
    """Returns host:port of each address, without the protocol before it, which the settings have checked."""
    return [entry.strip().rpartition("://")[2] for entry in text.split(",") if entry.strip()]


def _look_up(host: str, timeout: float) -> str | None:
    """Returns what is wrong with a name; None: it has an address. The resolver has no timeout, so a thread asks it."""
    problems: list[str | None] = []

    def ask() -> None:
        try:
            socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
            problems.append(None)
        except (OSError, UnicodeError) as error:
            reason = getattr(error, "strerror", None) or error
            problems.append(f"the name {host} has no address here ({reason}): correct the name, or this machine's DNS")

    thread = threading.Thread(target=ask, name="grete-doctor-dns", daemon=True)
    thread.start()
    thread.join(timeout)
    if problems:
        return problems[0]
    return f"the DNS does not answer for {host} within {timeout:g} s: correct the DNS of this machine"
