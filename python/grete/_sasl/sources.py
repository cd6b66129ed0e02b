"""Sources of bearer tokens: a function of the user, a token endpoint (OIDC), a file, and the libraries of clouds."""

import asyncio
import importlib
import inspect
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from grete import _native
from grete._sasl import endpoint, presets
from grete.errors import ConfigError

Fetch = Callable[[], object]
PROVIDER = "sasl.oauthbearer.token.provider"

_providers: dict[str, Callable[[], object]] = {}
_lock = threading.Lock()


def _in_child() -> None:
    """Replaces the lock, which another thread of the parent may have held at the fork."""
    global _lock
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_in_child)


def register(provider: Callable[[], object]) -> str:
    """Keeps a function of the user, and returns the name that stands for it among the settings."""
    base = f"{getattr(provider, '__module__', '?')}:{getattr(provider, '__qualname__', type(provider).__name__)}"
    with _lock:
        number, name = 1, base
        while _providers.setdefault(name, provider) != provider:  # a bound method is equal, not the same
            number += 1
            name = f"{base}#{number}"
        return name


def source_of(fields: dict[str, Any]) -> tuple[str, Fetch]:
    """Returns the name of the source that the settings ask for, and a function that fetches a token.

    Raises ConfigError if the settings name none, or not enough.
    """
    given = [name for name in ("provider", "endpoint", "file", "preset") if fields[name]]
    if not given:
        raise ConfigError(
            "sasl.mechanism=OAUTHBEARER needs a source of tokens: set sasl.oauthbearer.token.endpoint.url with "
            f"sasl.oauthbearer.client.id and .client.secret, sasl.oauthbearer.token.file, or {PROVIDER}",
            setting=PROVIDER,
        )
    if len(given) > 1:
        raise ConfigError(
            f"OAUTHBEARER has more than one source of tokens ({' and '.join(given)}): leave out all but one",
            setting=PROVIDER,
        )
    if given == ["provider"]:
        return _provider(fields["provider"])
    if given == ["endpoint"]:
        return endpoint.source_of(fields)
    if given == ["file"]:
        path = Path(fields["file"])
        return f"the file {path}", lambda: _native.NativeToken.of_file(path)
    return presets.source_of(fields["preset"], fields)


def _provider(name: str) -> tuple[str, Fetch]:
    provider = _providers.get(name)
    if provider is None:
        module, colon, attribute = name.partition(":")
        try:
            if not colon:
                raise AttributeError
            found: Any = importlib.import_module(module)
            for part in attribute.split("."):
                found = getattr(found, part)
        except (ImportError, AttributeError) as error:
            raise ConfigError(
                f"{PROVIDER} = {name!r} is no function: give a callable, or its name as MODULE:FUNCTION ({error})",
                setting=PROVIDER,
            ) from None
        if not callable(found):
            raise ConfigError(f"{PROVIDER} = {name!r} cannot be called", setting=PROVIDER)
        provider = found
    call: Callable[[], object] = provider

    def fetch() -> object:
        try:
            result = call()
            if inspect.isawaitable(result):
                return asyncio.run(_awaited(result))
            return result
        except ValueError as error:
            # The refresher takes the text of a ValueError as it is, and the user's function raises any.
            raise ValueError(f"raised {type(error).__name__}: {error}") from error

    return f"{PROVIDER} {name}", fetch


async def _awaited(awaitable: Any) -> object:
    return await awaitable
