"""Command `grete web`."""

import importlib.util
import ipaddress
from pathlib import Path

import click
from click.core import ParameterSource

from grete._cli.options import (
    kafka_options,
    kafka_settings,
    resolve_kafka_settings,
    resolve_with_fallback,
    set_up_logging,
)
from grete._cli.terminal import output
from grete._config import layers
from grete.errors import ConfigError, GreteError

_NEEDED = ("starlette", "uvicorn", "jinja2")


@click.group(invoke_without_command=True)
@click.option("--host", default="127.0.0.1", show_default=True, metavar="ADDRESS", help="Address to listen on.")
@click.option("--port", type=click.IntRange(0, 65535), default=8080, show_default=True, help="Port; 0: a free one.")
@click.option(
    "--public-host",
    "hosts",
    multiple=True,
    metavar="NAME",
    help="Host name by which browsers ask, beside localhost and --host; repeatable.",
)
@click.option(
    "--users",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="File of users, a line NAME:ROLE:HASH each: grete web password prints such lines.",
)
@click.option("--proxy-header", default="", metavar="NAME", help="Header in which a proxy names the user.")
@click.option(
    "--trusted-proxy",
    "proxies",
    multiple=True,
    metavar="ADDRESS[/BITS]",
    help="With --proxy-header: where the proxy sends from (127.0.0.1); repeatable.",
)
@click.option(
    "--role",
    "roles",
    multiple=True,
    metavar="NAME=ROLE",
    help="With --proxy-header: role of a user, viewer (others have it), operator or admin; repeatable.",
)
@click.option(
    "--mask",
    "masks",
    multiple=True,
    metavar="TOPIC:PART",
    help="Part of records that is shown to no user: orders:value.card.number, orders:key, *:headers.authorization; "
    "repeatable.",
)
@click.option("--setup", "creates", is_flag=True, help="Create the topics first, as grete web setup does.")
@kafka_options
@click.pass_context
def web(
    context: click.Context,
    host: str,
    port: int,
    hosts: tuple[str, ...],
    users: Path | None,
    proxy_header: str,
    proxies: tuple[str, ...],
    roles: tuple[str, ...],
    masks: tuple[str, ...],
    creates: bool,
    bootstrap: str | None,
    pairs: tuple[str, ...],
) -> None:
    """Shows what Apps do, in a browser: processes, lag, errors, dead letters, records.

    Apps report with web_reports="3s". One process of grete web reads the reports of all of them, and needs no
    database. On loopback no login is needed; another address needs --users or --proxy-header. The setting
    web_commands_secret signs commands to Apps. Ends with Ctrl-C.
    """
    if context.invoked_subcommand is not None:
        given = [name for name in context.params if context.get_parameter_source(name) is ParameterSource.COMMANDLINE]
        if given:
            raise click.UsageError(
                f"options of {context.invoked_subcommand} follow its name, and the pages have others"
            )
        return
    missing = [name for name in _NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise click.ClickException(f'grete web needs {", ".join(missing)}: pip install "grete[web]"')
    output.restore_stdout()
    set_up_logging("INFO")
    try:
        command_line = layers.parse_layer({}, kafka_settings(bootstrap, pairs), "command line")
        settings = resolve_kafka_settings(command_line)
        secret = resolve_with_fallback(command_line)["web_commands_secret"] or ""
        _serve(settings, secret, host, port, hosts, users, proxy_header, proxies, roles, masks, creates=creates)
    except GreteError as error:
        raise click.ClickException(str(error)) from None


def _serve(
    settings: dict[str, object],
    secret: str,
    host: str,
    port: int,
    hosts: tuple[str, ...],
    users: Path | None,
    proxy_header: str,
    proxies: tuple[str, ...],
    roles: tuple[str, ...],
    masks: tuple[str, ...],
    *,
    creates: bool,
) -> None:
    from grete._web import serve, topics
    from grete._web.server.access import Access, parse_roles, read_users
    from grete._web.server.masking import parse_masks
    from grete.client import Admin

    if users is not None and proxy_header:
        raise ConfigError("--users and --proxy-header are two ways to log in: give one", setting="users")
    try:
        networks = [ipaddress.ip_network(proxy) for proxy in proxies or ("127.0.0.1",)]
    except ValueError as error:
        raise ConfigError(f"--trusted-proxy: {error}", setting="trusted-proxy") from None
    access = Access({} if users is None else read_users(users), proxy_header, networks, parse_roles(roles))
    serve.check_exposure(host, access)
    masked = parse_masks(masks)
    listener = serve.listen(host, port)
    if creates:
        with Admin(settings) as admin:
            topics.create_topics(admin, -1, 30.0)
    shown = f"[{host}]" if ":" in host else host
    text = f"grete web: http://{shown}:{listener.getsockname()[1]}"
    serve.serve(
        settings, listener, access, {host, *hosts}, on_start=lambda: click.echo(text), secret=secret, masks=masked
    )
