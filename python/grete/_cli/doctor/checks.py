"""Steps of `grete doctor`, from the name of a broker to the topics and groups of an App.

Beyond names and ports, each problem is the client's own typed error, so that the doctor says what the App would say.
"""

import contextlib
import time
import uuid
from collections.abc import Callable, Generator, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from grete import _native
from grete._cli.doctor.finding import CertificateEnd, Finding
from grete._cli.doctor.hang import HangError, hangs_found, log_heard
from grete._cli.doctor.reach import connect, look_up, split_address
from grete._config import layers
from grete.client import AclOperation, Admin
from grete.client.cluster import Broker
from grete.errors import AuthenticationError, AuthorizationError, GreteError, KafkaError, NotKafkaError, TlsError

# Brokers of the metadata that are checked, and how many side by side. Each that hangs costs the time of a step.
_MAX_BROKERS = 50
_CHECKED_AT_ONCE = 25


class Doctor:
    """One examination. `timeout`: seconds for each step at each address."""

    def __init__(self, settings: Mapping[str, Any], timeout: float) -> None:
        self._settings = dict(settings)
        self._timeout = timeout
        protocol = str(settings.get("security.protocol", "PLAINTEXT")).upper()
        self._encrypts = protocol.endswith("SSL")
        self._logs_in = protocol.startswith("SASL")

    def check_settings(self) -> Iterator[Finding]:
        """Makes a client, which reads its files and opens no connection before the first call. Raises ConfigError."""
        with self._admin(str(self._settings["bootstrap.servers"])):
            pass
        yield Finding("settings", "all")
        dates = _native.client_certificate_dates(layers.client_config_pairs(self._settings))
        if dates is not None:
            # An expired one is a warning here, because the broker decides: the step `tls` has its answer.
            yield Finding("settings", "client certificate", certificate=CertificateEnd(dates[1], time.time()))

    def examine(self, topics: list[str], groups: list[str], written: list[str]) -> Iterator[Finding]:
        """Yields the finding of each step: `topics` are read, `written` are written.

        A step that cannot be taken, because one before it failed, has none.
        """
        with log_heard():
            yield from self._examine(topics, groups, written)

    def _examine(self, topics: list[str], groups: list[str], written: list[str]) -> Iterator[Finding]:
        usable: str | None = None
        brokers: tuple[Broker, ...] = ()
        for address in _addresses(str(self._settings["bootstrap.servers"])):
            reached = yield from self._reach(address)
            if reached is None:
                continue
            known = yield from self._connect(address, reached)
            if known is not None and usable is None:
                usable, brokers = address, known
        if usable is None:
            return
        yield from self._check_rack(brokers)
        if not (yield from self._check_advertised(brokers)):
            return
        yield from self._check_names(topics, groups, written)

    def _reach(self, address: str) -> Generator[Finding, None, str | None]:
        """Looks up the name and connects. Returns the IP address that takes connections; None: a step failed."""
        host, port = split_address(address)
        started = time.monotonic()
        addresses, problem = look_up(host, self._timeout)
        yield Finding("dns", address, problem, time.monotonic() - started)
        if problem is not None:
            return None
        started = time.monotonic()
        reached, problem = connect(addresses, host, port, self._timeout)
        yield Finding("tcp", address, problem, time.monotonic() - started)
        return reached

    def _connect(self, address: str, reached: str) -> Generator[Finding, None, tuple[Broker, ...] | None]:
        """Connects as the settings say and asks for the brokers, which are returned; None: a step failed. `reached`:
        IP address of the server.
        """
        started = time.monotonic()
        passed = [
            *(["tls"] if self._encrypts else []),
            "api_versions",
            *(["sasl"] if self._logs_in else []),
            "metadata",
        ]
        step, problem = "metadata", None
        brokers: tuple[Broker, ...] | None = None
        try:
            with self._admin(address, connecting=True) as admin, hangs_found(self._timeout):
                brokers = admin.cluster(timeout=len(passed) * self._timeout).brokers
        except GreteError as error:
            step, problem = self._step_of(error), str(error)
        # The steps before the one that failed have passed.
        seconds = time.monotonic() - started
        certificate = self._server_certificate(address, reached) if self._encrypts else None
        if step == "api_versions" and self._encrypts and certificate is None:
            step = "tls"
        for one in passed[: passed.index(step)] if step in passed else []:
            yield Finding(one, address, certificate=certificate if one == "tls" else None)
        yield Finding(step, address, problem, seconds, certificate if step == "tls" else None)
        return brokers

    def _server_certificate(self, address: str, reached: str) -> CertificateEnd | None:
        """Returns the end of the server's certificate; None: it has shown none."""
        host, port = split_address(address)
        pairs = layers.client_config_pairs(self._settings)
        dates = _native.server_certificate_dates(pairs, host, reached, port, self._timeout)
        return None if dates is None else CertificateEnd(dates[1], time.time())

    def _check_rack(self, brokers: tuple[Broker, ...]) -> Iterator[Finding]:
        """Looks whether a broker is in the rack of the client, if that has one. Else leaders are read, silently."""
        rack = str(self._settings.get("client.rack") or "")
        if not rack:
            return
        racks = sorted({broker.rack for broker in brokers if broker.rack})
        problem = None
        if not racks:
            problem = "no broker has a rack, so leaders are read: set broker.rack of each broker, or remove client.rack"
        elif rack not in racks:
            problem = f"no broker is in this rack, so leaders are read: set client.rack to one of {', '.join(racks)}"
        yield Finding("rack", rack, problem)

    def _check_advertised(self, brokers: tuple[Broker, ...]) -> Generator[Finding, None, bool]:
        """Looks whether each broker can be reached from here at its advertised address. Returns whether one can.

        Several are checked side by side, so that many that hang cost little more time than one.
        """
        any_usable = False
        with ThreadPoolExecutor(_CHECKED_AT_ONCE, "grete-doctor") as pool:
            for finding in pool.map(self._check_broker, brokers[:_MAX_BROKERS]):
                any_usable |= finding.ok
                yield finding
        if len(brokers) > _MAX_BROKERS:
            text = f"only the first {_MAX_BROKERS} were checked"
            yield Finding("advertised", f"all {len(brokers)} brokers ({text})")
        return any_usable

    def _check_broker(self, broker: Broker) -> Finding:
        host = f"[{broker.host}]" if ":" in broker.host else broker.host
        address = f"{host}:{broker.port}"
        started = time.monotonic()
        found = list(self._look_at(address))
        problem = found[-1].problem
        certificate = next((one.certificate for one in found if one.certificate), None)
        if problem is not None:
            problem = (
                f"broker {broker.id} advertises {address}, which cannot be used from here ({problem}); set "
                f"advertised.listeners of broker {broker.id} to an address that clients reach"
            )
        return Finding("advertised", f"broker {broker.id}", problem, time.monotonic() - started, certificate)

    def _look_at(self, address: str) -> Iterator[Finding]:
        reached = yield from self._reach(address)
        if reached is not None:
            yield from self._connect(address, reached)

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
        return "; ".join(_needs(admin, operation, "topic", topic) for operation in missing) or None

    def _check_group(self, admin: Admin, group: str) -> str | None:
        """Returns what the client may not do with a group; None: it may be a member.

        A member that does not exist is removed, which needs what members need and changes nothing.
        """
        try:
            admin.remove_members(group, [f"grete-doctor-{uuid.uuid4()}"], timeout=self._timeout)
        except AuthorizationError:
            return _needs(admin, AclOperation.READ, "group", group)
        except KafkaError as error:
            if error.name not in ("UNKNOWN_MEMBER_ID", "GROUP_ID_NOT_FOUND"):
                raise
        return None

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
    def _admin(self, address: str, connecting: bool = False) -> Iterator[Admin]:
        # An attempt ends when one step has had its time, so that the log says which.
        limit = str(max(100, round(self._timeout * 1000)))
        names = ("socket.connection.setup.timeout.ms", "socket.connection.setup.timeout.max.ms", "request.timeout.ms")
        limits = dict.fromkeys(names, limit) if connecting else {}
        with Admin({**self._settings, **limits, "bootstrap.servers": address}) as admin:
            yield admin

    def _step_of(self, error: GreteError) -> str:
        """Returns the step that a client's error belongs to."""
        match error:
            case HangError(step="tls") if not self._encrypts:
                return "tcp"
            case HangError():
                return error.step
            case TlsError():
                return "tls"
            case NotKafkaError():
                return "api_versions"
            case AuthenticationError():
                return "sasl"
        return "metadata"


def _needs(admin: Admin, operation: AclOperation, kind: str, name: str) -> str:
    return _native.needed_acl(operation.name.capitalize(), kind, name, admin._native.user())  # noqa: SLF001


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
