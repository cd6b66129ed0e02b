"""Pages of the command line, made from the commands themselves."""

import argparse
import re
from collections.abc import Iterator

import click

from grete._cli import COMMANDS, main
from grete._demo import command as demo_command
from grete._dev import command as dev_command

_HEAD = ("| option | value | default | meaning |", "|---|---|---|---|")
# Commands that click only passes on, because argparse starts faster.
_PARSERS = {"dev": dev_command._parser, "demo": demo_command._parser}  # noqa: SLF001


def pages() -> Iterator[tuple[str, str]]:
    """Returns path (in docs/) and text of each command's page, and of their index."""
    context = click.Context(main, info_name="grete", **main.context_settings)
    index = ["# Command line", "", "Look up each command and its options."]
    index += ["[Commands](../commands.md) describes what they have in common.", "", "| command | does |", "|---|---|"]
    for name in sorted(COMMANDS):
        command = main.get_command(context, name)
        assert command is not None
        index.append(f"| [`grete {name}`]({name}.md) | {COMMANDS[name][1]} |")
        if name in _PARSERS:
            yield f"cli/{name}.md", _parser_page(name, _PARSERS[name]())
        else:
            yield f"cli/{name}.md", _page(command, click.Context(command, info_name=name, parent=context))
    yield "cli/README.md", "\n".join(index) + "\n"


def _page(command: click.Command, context: click.Context) -> str:
    parts = [f"# {context.command_path}", *_described(command, context)]
    for inner, inner_context in subcommands(command, context):
        parts += [f"## {inner_context.command_path}", *_described(inner, inner_context)]
    return "\n\n".join(parts) + "\n"


def _parser_page(name: str, parser: argparse.ArgumentParser) -> str:
    words = "".join(f" [{action.metavar}]" for action in parser._actions if not action.option_strings)  # noqa: SLF001
    parts = [f"# grete {name}", *_paragraphs(parser.description or ""), f"    grete {name} [OPTIONS]{words}"]
    rows = []
    for action in parser._actions:  # noqa: SLF001
        if action.help is argparse.SUPPRESS:
            continue
        names = ", ".join(f"`{one}`" for one in action.option_strings) or f"`{action.metavar or action.dest.upper()}`"
        value = f"`{action.metavar or action.dest.upper()}`" if action.option_strings and action.nargs != 0 else ""
        text = (action.help or "") % {"default": action.default, "prog": parser.prog}
        rows.append(_cells(names, value, "", text))
    parts.append("\n".join([*_HEAD, *rows]))
    return "\n\n".join([*parts, *_paragraphs(parser.epilog or "")]) + "\n"


def subcommands(command: click.Command, context: click.Context) -> Iterator[tuple[click.Command, click.Context]]:
    """Returns the commands of a group, in the order of their names."""
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            if inner is not None and not inner.hidden:
                yield inner, click.Context(inner, info_name=name, parent=context)


def _described(command: click.Command, context: click.Context) -> list[str]:
    usage = command.collect_usage_pieces(context)
    parts = [*_paragraphs(command.help or ""), f"    {context.command_path} {' '.join(usage)}"]
    rows = [
        _row(parameter, context) for parameter in command.get_params(context) if not getattr(parameter, "hidden", False)
    ]
    if rows:
        parts.append("\n".join([*_HEAD, *rows]))
    return parts


def _paragraphs(text: str) -> list[str]:
    """A help text as paragraphs; those that click leaves unwrapped become code."""
    blocks = text.replace("\f", "").strip().split("\n\n")
    return [
        "\n".join(f"    {line}" for line in block.removeprefix("\b\n").splitlines())
        if block.startswith("\b")
        else _escaped(re.sub(r"\s+", " ", block).strip())
        for block in blocks
    ]


def _row(parameter: click.Parameter, context: click.Context) -> str:
    # Releases of click differ in the order of the names of --help.
    opts = sorted(parameter.opts, key=lambda name: not name.startswith("--"))
    names = ", ".join(f"`{name}`" for name in [*opts, *parameter.secondary_opts])
    value, default, text = "", "", ""
    if isinstance(parameter, click.Option):
        value = "" if parameter.is_flag or parameter.count else f"`{parameter.make_metavar(context)}`"
        default = _default(parameter, context)
        text = parameter.help or ""
    else:
        names = f"`{parameter.make_metavar(context)}`"
    return _cells(names, value, default, text)


def _cells(names: str, value: str, default: str, text: str) -> str:
    cells = [names, value, default, _escaped(re.sub(r"\s+", " ", text))]
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _default(option: click.Option, context: click.Context) -> str:
    if option.required:
        return "required"
    shown = option.get_help_extra(context).get("default")
    return f"`{shown}`" if shown else ""


def _escaped(text: str) -> str:
    """Leaves Markdown's characters in the text as they are, outside of code."""
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(part if part.startswith("`") else re.sub(r"([*_<\[\]])", r"\\\1", part) for part in parts)
