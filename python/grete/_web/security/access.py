"""Users and roles: who may see records, and who may act."""

import base64
import hashlib
import hmac
import ipaddress
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from grete.errors import ConfigError

if TYPE_CHECKING:
    from grete._web.security.oidc import OidcLogin

ROLES = ("viewer", "operator", "admin")
"""In order of rights: a viewer sees no records' content; an operator sees it, and replays dead letters."""

_SCRYPT = {"n": 2**14, "r": 8, "p": 1}
_NAME = re.compile(r"[A-Za-z0-9._@+-]{1,100}")
_KEPT_LOGINS = 1000


@dataclass(frozen=True, slots=True)
class User:
    """Sender of a request. `may_log_out`: the user has a session here."""

    name: str
    role: str
    may_log_out: bool = False

    def may(self, role: str) -> bool:
        """Returns whether the user has the rights of this role."""
        return ROLES.index(self.role) >= ROLES.index(role)

    @property
    def sees_payload(self) -> bool:
        """Whether keys, values and headers of records are shown."""
        return self.may("operator")


LOCAL = User("local", "admin")
"""User of a loopback port without a login: any user of the same machine."""


@dataclass(slots=True)
class Access:
    """Rules for requests. Without users and without a proxy's header each user is `LOCAL`."""

    users: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """Name -> (role, hash of the password)."""
    header: str = ""
    """Header in which a proxy names the user; "": none."""
    proxies: Sequence["ipaddress.IPv4Network | ipaddress.IPv6Network"] = ()
    """Addresses from which the header is believed."""
    roles: Mapping[str, str] = field(default_factory=dict)
    """Role of each user that a proxy names; others are viewers."""
    login: "OidcLogin | None" = None
    """Login by OpenID Connect."""
    _salt: bytes = field(default_factory=lambda: os.urandom(16))
    _logins: dict[bytes, User] = field(default_factory=dict)

    @property
    def is_open(self) -> bool:
        """Whether no login is asked for."""
        return not self.users and not self.header and self.login is None

    def user(self, headers: Mapping[str, str], client: str, session: str) -> User | None:
        """Returns the user of a request from this address; None: a login is needed. `session`: id in the cookie."""
        if self.is_open:
            return LOCAL
        if self.login is not None:
            return self.login.user(session)
        if self.header:
            name = headers.get(self.header.lower(), "")
            if name and _NAME.fullmatch(name) and self._is_proxy(client):
                return User(name, self.roles.get(name, "viewer"))
            return None
        return self._basic(headers.get("authorization", ""))

    def _is_proxy(self, client: str) -> bool:
        try:
            address = ipaddress.ip_address(client)
        except ValueError:
            return False
        return any(address in network for network in self.proxies)

    def _basic(self, authorization: str) -> User | None:
        scheme, _, encoded = authorization.partition(" ")
        if scheme.lower() != "basic" or len(encoded) > 1000:
            return None
        known = hashlib.sha256(self._salt + encoded.encode()).digest()
        found = self._logins.get(known)
        if found is not None:
            return found
        try:
            name, _, password = base64.b64decode(encoded, validate=True).decode().partition(":")
        except ValueError:
            return None
        role, stored = self.users.get(name, ("viewer", _NOBODY))
        # The hash is computed for unknown names, too, so that the time does not distinguish them.
        if not check_password(password, stored) or name not in self.users:
            return None
        if len(self._logins) >= _KEPT_LOGINS:
            self._logins.clear()
        user = self._logins[known] = User(name, role)
        return user


def hash_password(password: str, salt: bytes | None = None) -> str:
    """Returns a hash for the file of users."""
    salt = os.urandom(16) if salt is None else salt
    key = hashlib.scrypt(password.encode(), salt=salt, **_SCRYPT)
    return f"scrypt${salt.hex()}${key.hex()}"


def check_password(password: str, stored: str) -> bool:
    """Returns whether the password belongs to the hash."""
    _, salt, key = stored.split("$")
    return hmac.compare_digest(hash_password(password, bytes.fromhex(salt)), f"scrypt${salt}${key}")


_NOBODY = f"scrypt${'00' * 16}${'00' * 64}"


def read_users(path: Path) -> dict[str, tuple[str, str]]:
    """Reads the file of users: a line NAME:ROLE:HASH each. Raises ConfigError."""
    try:
        lines = path.read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read: {error}", origin=str(path)) from None
    users = {}
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.startswith("#"):
            continue
        name, _, rest = line.strip().partition(":")
        role, _, stored = rest.partition(":")
        if (
            not _NAME.fullmatch(name)
            or role not in ROLES
            or not re.fullmatch(r"scrypt\$[0-9a-f]{32}\$[0-9a-f]{128}", stored)
        ):
            raise ConfigError(
                f"{path}, line {number}: a line is NAME:ROLE:HASH, where the role is {', '.join(ROLES)}: "
                "grete web password prints such a line",
                origin=str(path),
            )
        users[name] = (role, stored)
    if not users:
        raise ConfigError(f"{path} names no user: add a line that grete web password prints", origin=str(path))
    return users


def parse_roles(pairs: Sequence[str], *, any_name: bool = False) -> dict[str, str]:
    """Parses NAME=ROLE of users that a proxy names. `any_name`: of users and groups of a provider, or "*". Raises
    ConfigError.
    """
    roles = {}
    for pair in pairs:
        name, _, role = pair.rpartition("=")
        if not (name if any_name else _NAME.fullmatch(name)) or role not in ROLES:
            raise ConfigError(f'a role is NAME={"|".join(ROLES)}, not "{pair}"', setting="role")
        roles[name] = role
    return roles
