"""Writes each setting with type, unit and default where users look: docs/configuration.md, and the docstrings of App,
App.consumer and the clients. `python -m tests.unit.settings_page` writes them all.
"""

import re
import textwrap
import typing
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

from grete import _native
from grete._config.parsers import Setting
from grete._config.registry import ROUTE_SETTINGS, SETTINGS
from grete._config.swarm_settings import SWARM_SETTINGS
from grete._routing.setting_types import AppSettings, RouteSettings, SwarmTable
from grete.retry import Retry

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "configuration.md"
PACKAGE = ROOT / "python" / "grete"
# Sizes and numbers among Kafka's settings, whose names do not end with a unit.
_BYTES = ("buffer.memory", "batch.size", "max.request.size", "queued_bytes")
_OUTSIDE_OF_THE_TABLE = {"swarm": "settings of `grete swarm`, a table: see SwarmTable and docs/swarm.md"}


class Row(NamedTuple):
    """One setting, as text."""

    name: str
    type: str
    unit: str
    default: str
    help: str


def type_text(annotation: Any) -> str:
    """A type in the notation that people write."""
    if typing.get_origin(annotation) is typing.Union:
        return " | ".join(type_text(one) for one in typing.get_args(annotation))
    text = annotation.__name__ if isinstance(annotation, type) and not typing.get_args(annotation) else str(annotation)
    return re.sub(r"\b(typing|collections\.abc|grete\.[a-z_.]+)\.", "", text)


def default_text(value: object) -> str:
    if value is None:
        return "not set"
    if isinstance(value, type):
        return value.__name__
    if isinstance(value, str):
        return f'"{value}"'
    return "grete.Retry()" if isinstance(value, Retry) else str(value)


def rows(types: Mapping[str, Any], table: Mapping[str, Setting], *, of_app: str = "not set") -> list[Row]:
    """All settings of a table, in its order. `of_app`: the default of a setting that is None and is the App's, too."""
    result = []
    for name in types:
        setting = table.get(name)
        if setting is None:
            result.append(Row(name, type_text(types[name]), "", "not set", _OUTSIDE_OF_THE_TABLE[name]))
            continue
        inherited = table is ROUTE_SETTINGS and name in SETTINGS and setting.default is None and name != "nodes"
        default = of_app if inherited else default_text(setting.default)
        result.append(Row(name, type_text(types[name]), setting.unit, default, setting.help))
    return result


def kafka_rows(role: Literal["consumer", "producer", "admin"]) -> list[Row]:
    """Kafka's settings of a client, with Grete's defaults."""
    result = []
    for name, default, _ in _native.config_entries([("bootstrap.servers", "any:1")], role):
        unit = "milliseconds" if name.endswith(".ms") else "bytes" if name.endswith("bytes") or name in _BYTES else ""
        shown = "" if name == "bootstrap.servers" else default
        kind = "bool" if default in ("true", "false") else "int" if default.lstrip("-").isdigit() else "str"
        result.append(Row(name, kind, unit, shown, ""))
    return result


def retry_rows() -> list[Row]:
    """Arguments of Retry, described by its docstring."""
    entry = re.compile(r"^ {4,8}(\w+): (.*?)(?=^ {4,8}\w+: |\n\n)", re.MULTILINE | re.DOTALL)
    described = dict(entry.findall(Retry.__doc__ or ""))
    types = typing.get_type_hints(Retry)
    return [
        Row(
            name,
            type_text(types[name]),
            "seconds" if name == "backoff" else "",
            default_text(getattr(Retry, name)),
            " ".join(described[name].split()),
        )
        for name in Retry.__dataclass_fields__
    ]


def markdown(given: list[Row]) -> str:
    """A table for the page."""
    lines = ["| setting | type | unit | default | meaning |", "|---|---|---|---|---|"]
    for row in given:
        cells = [f"`{row.name}`", f"`{row.type}`", row.unit, f"`{row.default}`", row.help]
        lines.append(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |")
    return "\n".join(lines)


def kafka_markdown(given: list[Row]) -> str:
    """A table of Kafka's settings for the page."""
    lines = ["| setting | type | unit | default |", "|---|---|---|---|"]
    lines += [
        f"| `{row.name}` | `{row.type}` | {row.unit} | {f'`{row.default}`' if row.default else 'not set'} |"
        for row in given
    ]
    return "\n".join(lines)


def docstring(given: list[Row], indent: str) -> str:
    """Lines below "Settings:" in a docstring."""
    wrapper = textwrap.TextWrapper(
        120,
        initial_indent=indent,
        subsequent_indent=f"{indent}    ",
        break_long_words=False,
        break_on_hyphens=False,
    )
    return "".join(f"{wrapper.fill(_line(row))}\n" for row in given)


def _line(row: Row) -> str:
    facts = [fact for fact in (row.type, row.unit) if fact]
    facts.append(f"default {row.default or 'not set'}")
    return f"{row.name} ({', '.join(facts)}){f': {row.help}' if row.help else '.'}"


class Place(NamedTuple):
    """A docstring in a file: the text that begins the definition, and its rows."""

    file: Path
    definition: str
    rows: Callable[[], list[Row]]


PLACES = (
    Place(PACKAGE / "app.py", "class App:", lambda: rows(AppSettings.__annotations__, SETTINGS)),
    Place(
        PACKAGE / "app.py",
        "    def consumer(self",
        lambda: rows(RouteSettings.__annotations__, ROUTE_SETTINGS, of_app="that of the App"),
    ),
    Place(PACKAGE / "client" / "producer.py", "class Producer(", lambda: kafka_rows("producer")),
    Place(PACKAGE / "client" / "consumer.py", "class Consumer:", lambda: kafka_rows("consumer")),
    Place(PACKAGE / "client" / "admin.py", "class Admin(TransactionAdmin):", lambda: kafka_rows("admin")),
)


def with_docstring(place: Place, source: str) -> str:
    """The source with the settings in the docstring of the definition."""
    start = source.index(f"\n{place.definition}")
    begin = source.index(" Settings:\n", start) + len(" Settings:\n")
    end = source.index('"""', begin)
    indent = source[source.rindex("\n", 0, end) + 1 : end]
    return source[:begin] + docstring(place.rows(), f"{indent}    ") + indent + source[end:]


def tables() -> Mapping[str, Callable[[], str]]:
    """The generated parts of the page, by the names of their markers."""
    return {
        "app": lambda: markdown([row for row in rows(AppSettings.__annotations__, SETTINGS) if row.name != "swarm"]),
        "route": lambda: markdown(rows(RouteSettings.__annotations__, ROUTE_SETTINGS, of_app="that of the App")),
        "swarm": lambda: markdown(rows(SwarmTable.__annotations__, SWARM_SETTINGS)),
        "retry": lambda: markdown(retry_rows()),
        "kafka-consumer": lambda: kafka_markdown(kafka_rows("consumer")),
        "kafka-producer": lambda: kafka_markdown(kafka_rows("producer")),
        "kafka-admin": lambda: kafka_markdown(kafka_rows("admin")),
    }


def page(text: str) -> str:
    """The page with its generated parts."""
    for name, make in tables().items():
        begin, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->"
        before, _, rest = text.partition(begin)
        after = rest.partition(end)[2]
        if not rest:
            raise AssertionError(f"docs/configuration.md has no marker {begin!r}")
        text = f"{before}{begin}\n{make()}\n\n{end}{after}"
    return text


def files() -> Iterator[tuple[Path, str]]:
    """Each file with the text that it should have."""
    yield PAGE, page(PAGE.read_text())
    texts: dict[Path, str] = {}
    for place in PLACES:
        texts[place.file] = with_docstring(place, texts.get(place.file) or place.file.read_text())
    yield from texts.items()


if __name__ == "__main__":
    for file, text in files():
        file.write_text(text)
