"""Command `grete explain`."""

import logging
import sys
import textwrap

import click

from grete._explain import ENTRIES
from grete._suggest import did_you_mean
from grete.instrumentation.events import EVENTS

_WIDTH = 100


@click.command()
@click.argument("name", required=False, metavar="[NAME]")
def explain(name: str | None) -> None:
    """Explains an error or an event: what causes it, what cures it, and what it looks like.

    NAME is the name in brackets at the end of a log line, like offset.reset, or the class of an error, like TlsError.
    Without a name, all names are listed.
    """
    if name is None:
        sys.stdout.write("".join(f"{one}\n" for one in sorted({*ENTRIES, *EVENTS})))
        return
    # As people copy it: "[offset.reset]", "grete.errors.TlsError:".
    key = name.strip().strip("[]:")
    key = key if key in EVENTS else key.rpartition(".")[2]
    if key not in ENTRIES and key not in EVENTS:
        raise click.ClickException(f"there is no error or event {name!r}{did_you_mean(name, [*ENTRIES, *EVENTS])}")
    sys.stdout.write("\n".join(_lines(key)) + "\n")


def _lines(name: str) -> list[str]:
    lines = [name]
    if name in EVENTS:
        levels = ", ".join(logging.getLevelName(level) for level in EVENTS[name].levels) or "not logged"
        lines += ["", *_paragraph(f"{EVENTS[name].description} ({levels})")]
    if name in ENTRIES:
        entry = ENTRIES[name]
        lines += ["", "Cause", *_paragraph(entry.cause), "", "Cure", *_paragraph(entry.cure)]
        lines += ["", "Example", *_paragraph(entry.example)]
    return lines


def _paragraph(text: str) -> list[str]:
    return textwrap.wrap(text, _WIDTH, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False)
