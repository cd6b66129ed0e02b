"""Command `grete asyncapi app:app`."""

import json
from typing import Any

import click

from grete._cli.app_loader import load_app
from grete._cli.options import kafka_options, kafka_settings
from grete._cli.terminal import output
from grete.errors import GreteError


@click.command()
@click.argument("target", metavar="MODULE:APP")
@click.option("--yaml", "as_yaml", is_flag=True, help="Print YAML instead of JSON (it needs the package PyYAML).")
@click.option("--app-version", metavar="VERSION", default="0.0.0", show_default=True, help="The App's version.")
@kafka_options
def asyncapi(target: str, as_yaml: bool, app_version: str, bootstrap: str | None, pairs: tuple[str, ...]) -> None:
    """Prints an AsyncAPI 3 document of an App's topics, handlers and payloads: `grete asyncapi shop.app:app`.

    Starts nothing and asks no broker. Payloads are described by JSON Schemas of their types.
    """
    output.check_stdout()
    app = load_app(target)
    try:
        from grete._asyncapi.document import make_document

        document = make_document(app, app_version, kafka_settings(bootstrap, pairs))
    except GreteError as error:
        raise click.ClickException(str(error)) from None
    click.echo(_yaml(document) if as_yaml else json.dumps(document, indent=2, ensure_ascii=False))


def _yaml(document: dict[str, Any]) -> str:
    try:
        import yaml
    except ImportError:
        raise click.ClickException("--yaml needs the package PyYAML: pip install pyyaml, or take the JSON") from None
    # JSON has no aliases, and readers of the document need none.
    text: str = yaml.safe_dump(json.loads(json.dumps(document)), sort_keys=False, allow_unicode=True)
    return text.rstrip("\n")
