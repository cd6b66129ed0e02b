"""Embedded brokers: start, stop and addresses."""

from collections.abc import Iterable, Mapping
from types import TracebackType

from grete import _native, _units
from grete.broker._certificates import Certificates
from grete.broker._commands import BrokerCommands

MAX_BROKERS = 100
_AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
TYPE_CHECKING = False
if TYPE_CHECKING:
    import os
    from typing import Any, Self


class Broker(BrokerCommands):
    """Kafka brokers in this process, from `start` or `with` to `stop`. A broker that was stopped can start again.

    They run on a thread of their own, which needs no GIL. Forked children do not inherit them.
    """

    def __init__(
        self,
        *,
        topics: "Mapping[str, int] | Iterable[str]" = (),
        brokers: int = 1,
        data: "str | os.PathLike[str] | None" = None,
        fsync: bool = False,
        port: int = 0,
        host: str = "127.0.0.1",
        advertised_host: str | None = None,
        allow_anyone: bool = False,
        memory: str | int | None = None,
        version: str | None = None,
        auto_create_topics: bool = True,
        log_to_stderr: bool = False,
        tls: "str | os.PathLike[str] | None" = None,
        mutual_tls: bool = False,
        sasl: "Mapping[str, str] | None" = None,
        acls: bool = False,
        super_users: "Iterable[str]" = (),
        settings: "Mapping[str, object] | None" = None,
    ) -> None:
        """`topics`: names with numbers of partitions (1 without), created at the start unless they exist.

        `data`: directory for records, topics and groups, which then survive the end of the process, even by SIGKILL;
        None: everything is lost. `fsync`: they also survive a power loss, and each write waits for the disk.

        `port`: port of the first broker, whose neighbors get the next ports; 0: free ports. `host`: address to listen
        on. Any other than a loopback address needs `sasl` and `tls`, or `allow_anyone`: without `sasl` everyone who can
        reach the port can do everything, and without `tls` passwords and records go in plain text. OAUTHBEARER is off
        there without `allow_anyone`, because everyone can make an unsecured token.
        `advertised_host`: name by which clients connect, if not `host`.

        `memory`: size of all records like "1GiB" (the default) beyond which writes are refused. `version`: release of
        Kafka whose API versions are offered, like "3.9"; None: the newest.

        `tls`: directory for certificates, which are made anew at each start: connections are encrypted, and clients
        need `client_settings`. `mutual_tls`: clients must show the certificate in `client_settings`.
        `sasl`: users with their passwords; clients then log in with PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, or
        OAUTHBEARER with an unsecured token. None: clients do not log in.

        `acls`: the brokers have an authorizer, as Kafka with `StandardAuthorizer`: what no ACL allows is refused.
        `super_users`: users who may do everything, such as "admin", or "CN=admin" of a client's certificate; given
        alone they switch the authorizer on. `settings`: broker settings by Kafka's names,
        like {"connections.max.reauth.ms": 60_000, "broker.rack": ["a", "b", "c"]}.
        """
        self._topics = _topics(topics)
        self._ports = _ports(port, brokers)
        self.broker_count = brokers
        self._settings: dict[str, Any] = {
            "host": "127.0.0.1" if host == "localhost" else host,
            "advertised_host": advertised_host,
            "allow_anyone": allow_anyone,
            "data": data,
            "fsync": fsync,
            "max_bytes": _memory(memory),
            "release": version,
            "auto_create_topics": auto_create_topics,
            "log_to_stderr": log_to_stderr,
            "users": _users(sasl),
            "settings": _acl_settings(acls, super_users, log_in=bool(sasl) or mutual_tls)
            + [(name, _setting_text(value)) for name, value in (settings or {}).items()],
        }
        if mutual_tls and tls is None:
            raise _config_error("mutual_tls needs tls: the directory for the certificates", "mutual_tls")
        self._certificates = None if tls is None else Certificates(tls, mutual=mutual_tls, logins=bool(sasl))
        self._native: _native.EmbeddedBroker | None = None
        self._advertised_host = advertised_host

    def start(self) -> "Self":
        """Starts the brokers: clients may connect when the call returns. Raises ConfigError and BrokerError."""
        if self._native is None:
            hosts = [host for host in (self._settings["host"], self._advertised_host) if host is not None]
            tls = None if self._certificates is None else self._certificates.make(hosts)
            self._native = _native.EmbeddedBroker(ports=self._ports, topics=self._topics, tls=tls, **self._settings)
        return self

    def stop(self) -> None:
        """Stops the brokers and closes all connections. Without `data`, everything is lost. May be called again."""
        native, self._native = self._native, None
        if native is not None:
            native.stop()

    def __enter__(self) -> "Self":
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def client_settings(self) -> dict[str, str]:
        """Kafka settings that clients need besides `bootstrap.servers`, user and password; may be empty."""
        if self._certificates is not None:
            return self._certificates.client_settings
        return {"security.protocol": "SASL_PLAINTEXT"} if self._settings["users"] else {}

    @property
    def bootstrap_servers(self) -> str:
        """Addresses of all brokers, for `bootstrap.servers`."""
        return ",".join(f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in self.addresses)

    @property
    def addresses(self) -> list[tuple[str, int]]:
        """Host and port of each broker, as clients connect."""
        return [(self._advertised_host or host, port) for _, host, port in self._running().addresses()]

    def call(self, command: str, **arguments: "Any") -> "Any":
        return self._running().call(command, **arguments)

    def log_lines(self) -> list[str]:
        """Returns the latest lines of the brokers' log."""
        return self._running().log_lines()

    def failure(self) -> str | None:
        """Returns why the brokers have ended by themselves, for example because the disk is full; None: they have
        not.
        """
        return self._running().failure()

    def end_fd(self) -> int:
        """Returns a descriptor that is readable once the brokers have ended. It is open until `stop`."""
        return self._running().end_fd()

    def _running(self) -> _native.EmbeddedBroker:
        if self._native is None:
            from grete.errors import ClosedError

            raise ClosedError("the brokers do not run: call start(), or use them in a with statement")
        return self._native


def _config_error(message: str, setting: str) -> Exception:
    from grete.errors import ConfigError

    return ConfigError(message, setting=setting)


def _topics(topics: Mapping[str, int] | Iterable[str]) -> list[tuple[str, int]]:
    if isinstance(topics, str):
        raise _config_error(f'topics are a dict like {{"{topics}": 8}}, not a string', "topics")
    pairs = list(topics.items() if isinstance(topics, Mapping) else ((name, 1) for name in topics))
    for name, partitions in pairs:
        if not isinstance(name, str) or not isinstance(partitions, int):
            pair = name if isinstance(name, tuple) else (name, partitions)
            raise _config_error(f'topics are a dict like {{"orders": 8}}, or names, not {pair!r}', "topics")
    return pairs


def _ports(port: int, brokers: int) -> list[int]:
    for setting, number in (("port", port), ("brokers", brokers)):
        if not isinstance(number, int):
            raise _config_error(f"{setting} is a whole number, not {number!r}", setting)
    if not 1 <= brokers <= MAX_BROKERS:
        raise _config_error(f"a cluster has 1 to {MAX_BROKERS} brokers, not {brokers}", "brokers")
    if not 0 <= port <= 65536 - brokers:
        which = "a port is" if brokers == 1 else f"{brokers} brokers have ports in a row, so the first one is"
        raise _config_error(f"{which} 1 to {65536 - brokers}, or 0 for a free one, not {port}", "port")
    return [port + number if port else 0 for number in range(brokers)]


def _users(sasl: Mapping[str, str] | None) -> list[tuple[str, str]]:
    if sasl is not None and not isinstance(sasl, Mapping):
        raise _config_error(f'sasl is a dict like {{"alice": "secret"}}, not {type(sasl).__name__}', "sasl")
    users = list((sasl or {}).items())
    for name, password in users:
        if not name or not password or "\0" in name + password:
            raise _config_error("sasl: users have names and passwords, without NUL characters", "sasl")
    return users


def _setting_text(value: object) -> str:
    """Returns the value of a broker setting as Kafka's files have it: lists are separated by commas."""
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def _acl_settings(acls: bool, super_users: Iterable[str], *, log_in: bool) -> list[tuple[str, str]]:
    if isinstance(super_users, str):
        raise _config_error(f'super_users are a list like ["{super_users}"], not a string', "super_users")
    users = list(super_users)
    for user in users:
        if not user or ";" in user:
            raise _config_error("super_users are names of users, without semicolons", "super_users")
    if not (acls or users):
        return []
    named = [user for user in users if user.removeprefix("User:") != "ANONYMOUS"]
    if named and not log_in:
        raise _config_error(
            f'no client can be the super user "{named[0]}", because clients do not log in: let users log in (sasl, '
            "--sasl) or show certificates (mutual_tls, --mutual-tls), or name ANONYMOUS",
            "super_users",
        )
    principals = ";".join(user if user.startswith("User:") else f"User:{user}" for user in users)
    return [("authorizer.class.name", _AUTHORIZER), ("super.users", principals)]


def _memory(memory: str | int | None) -> int | None:
    if memory is None:
        return None
    try:
        return _units.size(memory)
    except ValueError as error:
        raise _config_error(f"memory: {error}", "memory") from None
