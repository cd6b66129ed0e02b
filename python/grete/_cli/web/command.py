"""Command `grete web`."""

import importlib.util
from pathlib import Path
from typing import Any

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
from grete._cli.web.login import make_access
from grete._config import layers
from grete.errors import GreteError

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
    "--oidc", default="", metavar="ISSUER", help="URL of a provider of OpenID Connect, by which users log in."
)
@click.option(
    "--oidc-client",
    default="",
    metavar="ID",
    help="With --oidc: id that the provider has for grete web.",
)
@click.option(
    "--oidc-secret-file",
    "oidc_secret",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="With --oidc: file with the secret of the client; without it, the client is a public one.",
)
@click.option("--oidc-name-claim", default="preferred_username", show_default=True, help="Claim with a user's name.")
@click.option("--oidc-role-claim", default="", metavar="CLAIM", help="Claim with a user's groups, which --role names.")
@click.option("--public-url", default="", metavar="URL", help="With --oidc: URL by which browsers ask.")
@click.option(
    "--role",
    "roles",
    multiple=True,
    metavar="NAME=ROLE",
    help="Role of a user: viewer, operator or admin; repeatable. With --proxy-header others are viewers. With --oidc "
    "NAME is a user, group:GROUP, or * (all), and others are refused.",
)
@click.option(
    "--mask",
    "masks",
    multiple=True,
    metavar="TOPIC:PART",
    help="Part of records that is shown to no user: orders:value.card.number, orders:key, *:headers.authorization; "
    "repeatable.",
)
@click.option(
    "--schema-registry",
    "registry",
    default="",
    metavar="URL",
    help="Schema Registry: keys and values that name a schema of Avro or JSON Schema are shown as JSON.",
)
@click.option("--setup", "creates", is_flag=True, help="Create the topics first, as grete web setup does.")
@kafka_options
@click.pass_context
def web(
    context: click.Context,
    /,
    host: str,
    port: int,
    masks: tuple[str, ...],
    registry: str,
    creates: bool,
    bootstrap: str | None,
    pairs: tuple[str, ...],
    **logins: Any,
) -> None:
    """Shows what Apps do, in a browser: processes, lag, errors, dead letters, records.

    Apps report with web_reports="3s". One process of grete web reads the reports of all of them, and needs no
    database. On loopback no login is needed; another address needs --users, --proxy-header or --oidc. The setting
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
        _serve(settings, secret, host, port, masks, registry, logins, creates=creates)
    except GreteError as error:
        raise click.ClickException(str(error)) from None


def _serve(
    settings: dict[str, object],
    secret: str,
    host: str,
    port: int,
    masks: tuple[str, ...],
    registry: str,
    logins: dict[str, Any],
    *,
    creates: bool,
) -> None:
    from grete._web import serve, topics
    from grete._web.kafka.schemas import SchemaDecoder
    from grete._web.security.masking import parse_masks
    from grete.client import Admin

    access, hosts = make_access(logins)
    serve.check_exposure(host, access)
    masked = parse_masks(masks)
    schemas = SchemaDecoder(registry) if registry else None
    listener = serve.listen(host, port)
    if creates:
        with Admin(settings) as admin:
            topics.create_topics(admin, -1, 30.0)
    shown = f"[{host}]" if ":" in host else host
    text = logins["public_url"] or f"http://{shown}:{listener.getsockname()[1]}"
    serve.serve(
        settings,
        listener,
        access,
        {host, *hosts},
        on_start=lambda: click.echo(f"grete web: {text}"),
        secret=secret,
        masks=masked,
        schemas=schemas,
    )
