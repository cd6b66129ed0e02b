"""Tokens for a Schema Registry: OAuth 2.0 client credentials, as OpenID Connect providers issue them."""

import base64
import threading
import urllib.parse
from collections.abc import Callable
from time import monotonic
from typing import Any

from grete.errors import RegistryError

# Part of a token's life after which a new one is requested, so that none expires on its way.
_RENEW_AFTER = 0.8
# Life of a token whose response does not state one.
_DEFAULT_LIFE = 300.0

PostForm = Callable[[str, bytes, dict[str, str]], Any]


class ClientCredentials:
    """OAuth 2.0 client credentials: `Registry(url, auth=ClientCredentials("https://idp/token", "id", "secret"))`.

    The token is requested before the first request to the registry, and again after 80 per cent of its life.

    Args:
        token_url: the provider's token endpoint.
        client_id, client_secret: sent with basic authentication.
        scope: requested scopes, separated by spaces.
        audience: for providers that want one; other fields of the request go in `extra`.
        extra: further fields of the form.
    """

    def __init__(
        self,
        token_url: str,
        client_id: str,
        client_secret: str,
        *,
        scope: str | None = None,
        audience: str | None = None,
        extra: dict[str, str] | None = None,
    ) -> None:
        self.token_url = token_url
        given = {"grant_type": "client_credentials", "scope": scope, "audience": audience, **(extra or {})}
        self._form = urllib.parse.urlencode({name: value for name, value in given.items() if value}).encode()
        # RFC 6749, section 2.3.1: both are encoded like form fields first.
        pair = f"{urllib.parse.quote_plus(client_id)}:{urllib.parse.quote_plus(client_secret)}"
        self._authorization = f"Basic {base64.b64encode(pair.encode()).decode()}"
        self._lock = threading.Lock()
        self._token = ""
        self._renew_at = 0.0

    def __repr__(self) -> str:
        return f"ClientCredentials({self.token_url!r})"

    def token(self, post_form: PostForm) -> str:
        """Returns a token that is still valid. Raises what `post_form` raises, and RegistryError if the response has
        no token.
        """
        with self._lock:
            if self._token and monotonic() < self._renew_at:
                return self._token
            found = post_form(self.token_url, self._form, {"Authorization": self._authorization})
            token = found.get("access_token") if isinstance(found, dict) else None
            if not token or not isinstance(token, str):
                raise RegistryError(f"the token endpoint {self.token_url} answers without an access_token")
            try:
                life = float(found.get("expires_in", _DEFAULT_LIFE))
            except (TypeError, ValueError):
                life = _DEFAULT_LIFE
            self._token, self._renew_at = token, monotonic() + life * _RENEW_AFTER
            return token

    def forget(self) -> None:
        """Drops the token, because the registry refused it."""
        with self._lock:
            self._token = ""
