"""Options of `grete web` about logins, and what follows from them."""

import importlib.util
import ipaddress
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import click

from grete.errors import ConfigError

if TYPE_CHECKING:
    from grete._web.security.access import Access
    from grete._web.security.oidc import OidcLogin


def make_access(options: Mapping[str, Any]) -> "tuple[Access, set[str]]":
    """Returns the rules for requests, and the host names by which browsers ask. Raises ConfigError."""
    from grete._web.security.access import Access, parse_roles, read_users

    ways = {"--users": options["users"], "--proxy-header": options["proxy_header"], "--oidc": options["oidc"]}
    given = [name for name, value in ways.items() if value]
    if len(given) > 1:
        raise ConfigError(f"{' and '.join(given)} are ways to log in: give one", setting=given[0][2:])
    try:
        networks = [ipaddress.ip_network(proxy) for proxy in options["proxies"] or ("127.0.0.1",)]
    except ValueError as error:
        raise ConfigError(f"--trusted-proxy: {error}", setting="trusted-proxy") from None
    if not options["oidc"]:
        alone = [
            f"--{name.replace('_', '-')}" for name in ("oidc_client", "public_url", "oidc_role_claim") if options[name]
        ]
        alone += ["--oidc-secret-file"] if options["oidc_secret"] is not None else []
        if alone:
            raise ConfigError(f"{alone[0]} needs --oidc: without a login each user is an admin", setting=alone[0][2:])
        if options["roles"] and not options["proxy_header"]:
            text = "--role needs --oidc or --proxy-header; grete web password --role writes roles for --users"
            raise ConfigError(text, setting="role")
    hosts = set(options["hosts"])
    if not options["oidc"]:
        users = read_users(options["users"]) if options["users"] is not None else {}
        return Access(users, options["proxy_header"], networks, parse_roles(options["roles"])), hosts
    login, host = _oidc_login(options)
    return Access(login=login), hosts | {host}


def _oidc_login(options: Mapping[str, Any]) -> "tuple[OidcLogin, str]":
    from grete._web.security.access import parse_roles
    from grete._web.security.oidc import OidcLogin, OidcSettings

    missing = [name for name in ("authlib", "httpx") if importlib.util.find_spec(name) is None]
    if missing:
        raise click.ClickException(f'--oidc needs {", ".join(missing)}: pip install "grete[web,oidc]"')
    public, issuer = urlsplit(options["public_url"]), urlsplit(options["oidc"])
    if public.scheme not in ("http", "https") or not public.hostname or public.path.strip("/") or public.query:
        raise ConfigError(
            "--oidc needs --public-url, the URL by which browsers ask, without a path: https://kafka.example.com",
            setting="public-url",
        )
    if issuer.scheme not in ("http", "https") or not issuer.hostname:
        raise ConfigError(
            f'--oidc is the URL of a provider, like https://id.example.com, not "{options["oidc"]}"', setting="oidc"
        )
    if not options["oidc_client"]:
        raise ConfigError(
            "--oidc needs --oidc-client, the id that the provider has for grete web", setting="oidc-client"
        )
    roles = parse_roles(options["roles"], any_name=True)
    if not roles:
        raise ConfigError(
            "--oidc needs --role: NAME=operator for a user, group:NAME=operator for a group, or '*=viewer' for all "
            "whom the provider lets in",
            setting="role",
        )
    settings = OidcSettings(
        options["oidc"],
        options["oidc_client"],
        _secret(options["oidc_secret"]),
        options["public_url"],
        options["oidc_name_claim"],
        options["oidc_role_claim"],
        roles,
    )
    return OidcLogin(settings), public.hostname


def _secret(path: Path | None) -> str:
    if path is None:
        return ""
    try:
        secret = path.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read: {error}", origin=str(path)) from None
    if not secret:
        raise ConfigError(f"{path} is empty: write the client's secret into it", origin=str(path))
    return secret
