"""A token and its life, from what sources return."""

import base64
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from grete import _native

# Life in seconds of a token that does not say when it expires.
DEFAULT_LIFE = 300.0
# A time above this is in milliseconds since 1970: in seconds, it would be in the year 5138.
_MILLISECONDS = 1e11


@dataclass(frozen=True, slots=True)
class Token:
    """Bearer token. `expires_at`: seconds since 1970. `extensions`: names and values of the login (KIP-342)."""

    value: str | _native.FileToken = field(repr=False)
    expires_at: float
    extensions: tuple[tuple[str, str], ...] = ()


def from_result(result: object, now: float | None = None) -> Token:
    """Returns the token that a source has given: text, (text, expiry), (text, expiry, principal, extensions) as
    confluent-kafka's `oauth_cb` returns them, or a mapping with `access_token` and `expires_in`.

    An expiry is in seconds or milliseconds since 1970, or a `datetime`. Without one, the token's claim `exp` counts.
    Raises ValueError for anything else; its message repeats no part of the result.
    """
    now = time.time() if now is None else now
    extensions: object = ()
    if isinstance(result, Mapping):
        value = result.get("access_token")
        life = result.get("expires_in")
        expiry: object = None if life is None else now + _number(life, "expires_in")
    elif isinstance(result, (tuple, list)) and 2 <= len(result) <= 4:
        value, expiry = result[0], result[1]
        extensions = result[3] if len(result) == 4 else ()
    else:
        value, expiry = result, None
        if not isinstance(value, (str, bytes)) and hasattr(value, "token"):  # AccessToken of azure-identity
            value, expiry = value.token, getattr(value, "expires_on", None)
    if isinstance(value, _native.FileToken):
        claims = value.claims()
        return _unexpired(value, None if claims is None else _expiry_in(claims), now, extensions)
    if isinstance(value, bytes):
        value = value.decode("ascii", "replace")
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"it returned {_kind(value)} instead of a token")
    value = value.strip()
    if not value.isascii():  # here, since an UnicodeEncodeError would hold the token
        raise ValueError("its token has a character that bearer tokens do not have: give the token alone")
    return _unexpired(value, _expiry(expiry) if expiry is not None else _claimed_expiry(value), now, extensions)


def _unexpired(value: str | _native.FileToken, expires_at: float | None, now: float, extensions: object) -> Token:
    expires_at = expires_at or now + DEFAULT_LIFE
    if expires_at <= now:
        raise ValueError(f"its token expired {now - expires_at:.0f} s ago")
    return Token(value, expires_at, _extensions(extensions))


def _kind(value: object) -> str:
    return "nothing" if value is None or value in ("", b"") else f"an object of type {type(value).__name__}"


def _number(value: object, name: str) -> float:
    try:
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"its {name} is no number") from None
    if not 0 < number < float("inf"):
        raise ValueError(f"its {name} is not a number above 0")
    return number


def _expiry(value: object) -> float:
    timestamp = getattr(value, "timestamp", None)
    number = _number(timestamp() if callable(timestamp) else value, "time of expiry")
    return number / 1000 if number > _MILLISECONDS else number


def _claimed_expiry(value: str) -> float | None:
    """Returns the claim `exp` of a JSON web token; None: the token is opaque, or has none."""
    parts = value.split(".")
    if len(parts) != 3 or len(value) > 1 << 18:
        return None
    try:
        return _expiry_in(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except ValueError:
        return None


def _expiry_in(claims: str | bytes) -> float | None:
    try:
        found: Any = json.loads(claims)
        return _number(found["exp"], "exp")
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


def _extensions(given: object) -> tuple[tuple[str, str], ...]:
    pairs = list(given.items()) if isinstance(given, Mapping) else given or ()
    try:
        return tuple((str(name), str(value)) for name, value in pairs)  # type: ignore[attr-defined]
    except (TypeError, ValueError):
        raise ValueError("its extensions are no mapping of names to values") from None
