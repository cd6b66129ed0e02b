"""Pages of the error index, made from the texts of `grete explain`."""

import logging
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from grete._explain import BROKERS, CLASSES, HANDLERS, PRODUCERS, SWARM, Entry
from grete.instrumentation.events import EVENTS


class IndexPage(NamedTuple):
    """A page of the index."""

    title: str
    entries: Mapping[str, Entry]


PAGES: Mapping[str, IndexPage] = {
    "classes": IndexPage("Error classes: cause and cure", CLASSES),
    "handlers": IndexPage("Apps and handlers: warnings and errors", HANDLERS),
    "brokers": IndexPage("Groups, brokers and topics: warnings and errors", BROKERS),
    "producers": IndexPage("Producers: warnings and errors", PRODUCERS),
    "swarm": IndexPage("Swarm and listeners: warnings and errors", SWARM),
}

HEAD = """# Error index

Find the cause and the cure of an error or of a line in the log.

- A line of level WARNING or above ends with the name of its event: `... is not in the log ... [offset.reset]`.
- A traceback ends with the class of the error: `grete.errors.BufferFullError: ...`. Its attribute `help` is the command
  that explains it. The error of a command ends with the class in brackets: `Error: ... [TlsError]`.
- In a terminal, `grete explain offset.reset` and `grete explain BufferFullError` print what these pages say, without a
  network.

A log handler of your own finds the name in the attribute `event` of the log record. The lines of `grete run`, of
`grete swarm` and of a program without logging have the name in brackets at the end of their first line.
"""


def anchor(name: str) -> str:
    """Returns the anchor of an entry's heading."""
    return name.lower().replace(".", "")


def pages() -> Iterator[tuple[str, str]]:
    """Returns path (in docs/) and text of each page of the index."""
    index = [HEAD]
    for file, page in PAGES.items():
        links = ", ".join(f"[`{name}`]({file}.md#{anchor(name)})" for name in page.entries)
        index.append(f"## {page.title}\n\n{links}\n")
        entries = [_entry(name, entry) for name, entry in page.entries.items()]
        opening = "Find the cause and the cure by the name. [The index](README.md) says where names are shown."
        yield f"errors/{file}.md", "\n\n".join([f"# {page.title}", opening, *entries]) + "\n"
    yield "errors/README.md", "\n".join(index)


def _entry(name: str, entry: Entry) -> str:
    if name in EVENTS:
        level = logging.getLevelName(next(one for one in EVENTS[name].levels if one >= logging.WARNING))
        example = f"{level:<7} grete: {entry.example} [{name}]"
        more = f"Fields: [Events](../events.md), `{name}`."
    else:
        module = "grete.testing" if name == "NeedsEmbeddedBrokerError" else "grete"
        example = f"{module}.errors.{name}: {entry.example}" if module == "grete" else f"{name}: {entry.example}"
        page = "testing" if module == "grete.testing" else "errors"
        more = f"Attributes: [`{name}`](../api/{page}.md#{module}.{name})."
    return f"## {name}\n\n**Cause.** {entry.cause}\n\n**Cure.** {entry.cure}\n\n```log\n{example}\n```\n\n{more}"
