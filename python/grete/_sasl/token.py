"""A token and its life, from what sources return."""

import base64
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from grete import _native

# Life in seconds of a token that does not say when it expires.
DEFAULT_LIFE = 300.0
# A time above this is in milliseconds since 1970: in seconds, it would be in the year 5138.
_MILLISECONDS = 1e11


@dataclass(frozen=True, slots=True)
class Token:
    """Bearer token. `expires_at`: seconds since 1970. `extensions`: names and values of the login (KIP-342). `subject`:
    the claim `sub`, the user for brokers by default; None: the token is opaque, or has none. `validity`: when the token
    is valid, beside this machine's clock, as a text.
    """

    value: str | _native.NativeToken = field(repr=False)
    expires_at: float
    extensions: tuple[tuple[str, str], ...] = ()
    subject: str | None = None
    validity: str = ""


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
    if isinstance(value, _native.NativeToken):
        claims = _claims_in(value.claims() or "")
        return _unexpired(value, None if expiry is None else _expiry(expiry), claims, now, extensions)
    if isinstance(value, bytes):
        value = value.decode("ascii", "replace")
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"it returned {_kind(value)} instead of a token")
    value = value.strip()
    if not value.isascii():  # here, since an UnicodeEncodeError would hold the token
        raise ValueError("its token has a character that bearer tokens do not have: give the token alone")
    return _unexpired(value, None if expiry is None else _expiry(expiry), _claims(value), now, extensions)


def _unexpired(
    value: str | _native.NativeToken, expiry: float | None, claims: dict[str, Any], now: float, extensions: object
) -> Token:
    expires_at = expiry if expiry is not None else _claimed(claims, "exp") or now + DEFAULT_LIFE
    if expires_at <= now:
        raise ValueError(f"its token expired {now - expires_at:.0f} s ago")
    subject = claims.get("sub")
    named = subject if isinstance(subject, str) and subject else None
    return Token(value, expires_at, _extensions(extensions), named, _validity(claims, expires_at, now))


def _validity(claims: dict[str, Any], expires_at: float, now: float) -> str:
    """Returns the times of a token as a text. A broker that refuses a token does not say which clock is wrong."""
    begins = [at for name in ("nbf", "iat") if (at := _claimed(claims, name)) is not None]
    if begins and max(begins) > now + 1:
        early = f"by this machine's clock the token is not valid for another {max(begins) - now:.0f} s"
        return f"{early}: set this clock, or that of the issuer of the token, right"
    begin = f"from {_utc(max(begins))} " if begins else ""
    return f"the token is valid {begin}until {_utc(expires_at)}, and came at {_utc(now)} by this machine's clock"


def _utc(at: float) -> str:
    try:
        return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M:%S} UTC"
    except (ValueError, OverflowError, OSError):
        return "a day beyond the year 9999"


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


def _claims(value: str) -> dict[str, Any]:
    """Returns the claims of a JSON web token, unchecked; empty: the token is opaque."""
    parts = value.split(".")
    if len(parts) != 3 or len(value) > 1 << 18:
        return {}
    try:
        return _claims_in(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except ValueError:
        return {}


def _claims_in(text: str | bytes) -> dict[str, Any]:
    try:
        claims = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return claims if isinstance(claims, dict) else {}


def _claimed(claims: dict[str, Any], name: str) -> float | None:
    """Returns the time of a claim; None: there is none."""
    try:
        return _number(claims[name], name)
    except (ValueError, KeyError):
        return None


def _extensions(given: object) -> tuple[tuple[str, str], ...]:
    pairs = list(given.items()) if isinstance(given, Mapping) else given or ()
    try:
        return tuple((str(name), str(value)) for name, value in pairs)  # type: ignore[attr-defined]
    except (TypeError, ValueError):
        raise ValueError("its extensions are no mapping of names to values") from None
