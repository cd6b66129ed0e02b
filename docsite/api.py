"""Pages of the API, made from the `__all__` of the public modules: a name that a module gains is on a page at once.

mkdocstrings fills in signatures and docstrings while the site is built.
"""

import ast
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from docsite.outside import ROOT

PACKAGE = ROOT / "python"


class ApiPage(NamedTuple):
    """A page with public names."""

    title: str
    opening: str
    module: str
    names: tuple[str, ...] | None
    """Names of the module in their order. None: all that no other page has."""


# Pages by their file in docs/api/.
PAGES: Mapping[str, ApiPage] = {
    "app": ApiPage(
        "App and handlers",
        "Look up how an App is declared and run, and what a handler can name, get and return.",
        "grete",
        (
            *("App", "Consumer", "Retry", "Topic", "Record", "Key", "Headers", "Offset", "Attempt", "Context", "Batch"),
            *("Depends", "Producer"),
        ),
    ),
    "messages": ApiPage(
        "Messages",
        "Look up what a record, and a batch of records, offer to a handler.",
        "grete",
        ("Message", "Messages"),
    ),
    "errors": ApiPage(
        "Error classes",
        "Look up the classes of all errors and their attributes. [The error index](../errors/README.md) has the cause, "
        "the cure and an example of each.",
        "grete",
        None,
    ),
    "clients": ApiPage(
        "Consumers and producers",
        "Look up the low-level clients that read and write records without an App.",
        "grete.client",
        ("Consumer", "ShareConsumer", "Producer", "Deliveries", "Delivery", "Undelivered", "TopicReader", "read_topic"),
    ),
    "admin": ApiPage(
        "Admin client",
        "Look up how a program manages topics, groups, settings and ACLs, and what the calls return.",
        "grete.client",
        None,
    ),
    "payloads": ApiPage(
        "Payloads",
        "Look up the formats of values and keys, and the client of a Schema Registry.",
        "grete.payloads",
        None,
    ),
    "testing": ApiPage(
        "Testing", "Look up the functions and fixtures that test handlers and Apps.", "grete.testing", None
    ),
    "broker": ApiPage(
        "Embedded brokers", "Look up the brokers that run inside a Python process.", "grete.broker", None
    ),
    "instrumentation": ApiPage(
        "Events and metrics",
        "Look up how a program listens to events and reads metrics.",
        "grete.instrumentation",
        None,
    ),
    "datadog": ApiPage("Tracer", "Look up the tracer that writes spans.", "grete.instrumentation.datadog", None),
    "dogstatsd": ApiPage(
        "DogStatsD",
        "Look up the listener that sends metrics to a Datadog agent.",
        "grete.instrumentation.dogstatsd",
        None,
    ),
    "opentelemetry": ApiPage(
        "OpenTelemetry",
        "Look up the listener for OpenTelemetry's SDK.",
        "grete.instrumentation.opentelemetry",
        None,
    ),
    "prometheus": ApiPage(
        "prometheus_client", "Look up the collector for prometheus_client.", "grete.instrumentation.prometheus", None
    ),
    "job-logger": ApiPage(
        "Job logger", "Look up the listener that logs a line for each job.", "grete.instrumentation.job_logger", None
    ),
    "process-title": ApiPage(
        "Process title",
        "Look up the listener that shows the state of a process in `ps`.",
        "grete.instrumentation.process_title",
        None,
    ),
    "asgi": ApiPage("ASGI", "Look up how an App runs inside of a web server.", "grete.asgi", None),
    "django": ApiPage("Django", "Look up the integration with Django.", "grete.django", None),
}
# Names that are no objects with a docstring of their own: modules have pages, and the version is a text.
_WITHOUT_ENTRY = {"grete": {"__version__", "asgi", "client", "instrumentation", "payloads"}}


def source_of(module: str) -> str:
    """Returns the source of a module of the package."""
    base = PACKAGE / module.replace(".", "/")
    return (base / "__init__.py" if base.is_dir() else base.with_suffix(".py")).read_text()


# Methods of a private base class are those of the class.
_OPTIONS = {"Admin": "\n    options:\n      inherited_members: true"}


def public_names(module: str) -> list[str]:
    """Returns the public names of a module: its `__all__`, or what it defines without an underscore."""
    tree = ast.parse(source_of(module))
    for node in tree.body:
        if isinstance(node, ast.Assign) and any(
            isinstance(one, ast.Name) and one.id == "__all__" for one in node.targets
        ):
            names: list[str] = ast.literal_eval(node.value)
            return [name for name in names if name not in _WITHOUT_ENTRY.get(module, ())]
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    return [node.name for node in tree.body if isinstance(node, kinds) and not node.name.startswith("_")]


def names_of(page: ApiPage) -> list[str]:
    """Returns the public names on a page."""
    if page.names is not None:
        return list(page.names)
    taken = {name for other in PAGES.values() if other.module == page.module for name in other.names or ()}
    return [name for name in public_names(page.module) if name not in taken]


def pages() -> Iterator[tuple[str, str]]:
    """Returns path (in docs/) and text of each page of the API."""
    index = ["# Python API", "", "Look up each public name, its signature and its documentation.", ""]
    index += [
        "The site (`make docs`) has the texts of these pages. In a checkout, `help(grete.Messages)` has them.",
        "",
    ]
    index += ["| page | module | names |", "|---|---|---|"]
    for file, page in PAGES.items():
        names = names_of(page)
        links = ", ".join(f"[`{name}`]({file}.md#{page.module}.{name})" for name in names)
        index.append(f"| [{page.title}]({file}.md) | `{page.module}` | {links} |")
        entries = "\n\n".join(f"::: {page.module}.{name}{_OPTIONS.get(name, '')}" for name in names)
        yield f"api/{file}.md", f"# {page.title}\n\n{page.opening}\n\n{entries}\n"
    index += ["", "`grete.__version__` is the version as text. [Versions](../versions.md) describes what public means."]
    yield "api/README.md", "\n".join(index) + "\n"
