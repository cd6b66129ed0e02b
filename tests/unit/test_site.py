"""The documentation site: it builds without a warning, its reference is complete, its links and anchors lead somewhere,
and it needs no other host.
"""

from __future__ import annotations

import html
import logging
import os
import re
import subprocess
import sys
import urllib.parse
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import click
import pytest

from docsite import __main__ as generated
from docsite import api, cli, outside, rules
from grete._cli import COMMANDS, main
from grete._config.registry import ROUTE_SETTINGS, SETTINGS
from grete._config.swarm_settings import SWARM_SETTINGS
from grete._explain import ENTRIES
from grete.instrumentation.events import EVENTS
from tests.unit.exposition import CATALOGUE

ROOT = Path(__file__).parents[2]
# A test that runs beside this one may build, too.
_TARGET = re.compile(r'\b(?:href|src)="([^"]*)"')
_ID = re.compile(r'\b(?:id|name)="([^"]+)"')


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built strictly."""
    directory = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(directory)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return directory


def _pages(site: Path) -> list[Path]:
    return [page for page in sorted(site.rglob("*.html")) if page.name != "404.html"]


def test_generated_pages_are_those_of_the_code() -> None:
    assert generated.outdated() == [], "python -m docsite writes them"


def test_pages_keep_the_rules() -> None:
    assert list(rules.breaches()) == []


def test_words_are_counted_without_code_and_generated_parts() -> None:
    text = "one two\n\n```python\nthree\n```\n\n    four\n\n| five |\n\n<!-- a -->\nsix\n<!-- end of a -->\n"
    assert rules.words(text) == 3


def test_each_link_and_anchor_leads_somewhere(site: Path) -> None:
    pages = _pages(site)
    texts = {page: page.read_text() for page in pages}
    ids = {page: {*map(html.unescape, _ID.findall(text))} for page, text in texts.items()}
    broken = []
    for page, text in texts.items():
        for target in map(html.unescape, _TARGET.findall(text)):
            if re.match(r"[a-z]+:|//", target) or not target:
                continue
            path, _, anchor = urllib.parse.unquote(target).partition("#")
            there = (page.parent / path).resolve() if path else page
            there = there / "index.html" if there.is_dir() else there
            if not there.exists() or (anchor and there in ids and anchor not in ids[there] and anchor != "__skip"):
                broken.append(f"{page.relative_to(site)}: {target}")
    assert broken == []


def test_no_page_loads_anything_from_another_host(site: Path) -> None:
    loading = re.compile(
        r'<(?:script|img|iframe|source)[^>]*\bsrc="(?:https?:)?//|<link[^>]*rel="(?!canonical)[^>]*href="(?:https?:)?//'
    )
    assert [page.name for page in sorted(site.rglob("*.html")) if loading.search(page.read_text())] == []


def test_search_finds_pages_without_a_server(site: Path) -> None:
    index = (site / "search" / "search_index.js").read_text()
    assert "How a record travels" in index


@cache
def _reference(*folders: str) -> str:
    return "\n".join(page.read_text() for folder in folders for page in sorted((outside.DOCS / folder).glob("*.md")))


def test_each_public_name_is_documented(site: Path) -> None:
    ids = {one for page in (site / "api").glob("*.html") for one in _ID.findall(page.read_text())}
    modules = {page.module for page in api.PAGES.values()}
    names = {f"{module}.{name}" for module in modules for name in api.public_names(module)}
    assert len(names) > 120
    assert sorted(names - ids) == []


def test_each_public_class_of_errors_and_each_warning_has_an_entry() -> None:
    classes = {name for name in api.public_names("grete") if name.endswith("Error") or name in ("Reject", "RetryLater")}
    warnings = {name for name, spec in EVENTS.items() if any(level >= logging.WARNING for level in spec.levels)}
    assert sorted(ENTRIES) == sorted(classes | warnings | {"NeedsEmbeddedBrokerError"})


def _tables(*pages: str) -> set[str]:
    text = "\n".join((outside.DOCS / page).read_text() for page in pages)
    return set(re.findall(r"^\| `([^`]+)` \|", text, flags=re.MULTILINE))


@pytest.mark.parametrize(
    ("names", "pages"),
    [
        (lambda: {*SETTINGS, *ROUTE_SETTINGS, *SWARM_SETTINGS} - {"swarm"}, ("configuration.md",)),
        (lambda: EVENTS, ("events.md",)),
        (lambda: CATALOGUE, ("metrics.md",)),
    ],
    ids=["settings", "events", "metrics"],
)
def test_the_tables_of_the_reference_are_complete(names: Callable[[], set[str]], pages: tuple[str, ...]) -> None:
    assert sorted({*names()} - _tables(*pages)) == []


def _options(command: click.Command, context: click.Context) -> Iterator[tuple[str, list[str]]]:
    shown = [one for one in command.get_params(context) if not getattr(one, "hidden", False)]
    yield context.command_path, [name for one in shown if isinstance(one, click.Option) for name in one.opts]
    for inner, inner_context in cli.subcommands(command, context):
        yield from _options(inner, inner_context)


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_each_command_and_option_is_documented(name: str) -> None:
    page = (outside.DOCS / "cli" / f"{name}.md").read_text()
    if name in ("dev", "demo"):  # argparse's: the help of the command itself is the witness
        shown = subprocess.run(
            [sys.executable, "-m", "grete", name, "--help"], capture_output=True, text=True, check=True, timeout=60
        ).stdout
        assert [
            option
            for option in re.findall(r"^  (?:-\w, )?(--[\w-]+)", shown, re.MULTILINE)
            if f"`{option}`" not in page
        ] == []
        return
    context = click.Context(main, info_name="grete", **main.context_settings)
    command = main.get_command(context, name)
    assert command is not None
    for path, options in _options(command, click.Context(command, info_name=name, parent=context)):
        section = page.partition(f"# {path}\n")[2].partition("\n## ")[0]
        assert section, path
        assert [option for option in options if f"`{option}`" not in section] == []


def test_links_out_of_the_documents_become_pages_or_names() -> None:
    text = "[a](../examples/swarm.py), [`b`](../crates/x.rs), [c](../crates/x.rs), `[d](../e.py)`\n\n"
    text += "```\n[f](../g.py)\n```\n"
    assert outside.rewritten(text, "docs/page.md", "page.md", "") == (
        '[a](project/examples/swarm.py.md), <code class="source" title="crates/x.rs">b</code>, '
        '<span class="source" title="crates/x.rs">c</span>, `[d](../e.py)`\n\n'
        "```\n[f](../g.py)\n```\n"
    )
    assert "[c](https://host/main/crates/x.rs)" in outside.rewritten(
        text, "docs/page.md", "page.md", "https://host/main/"
    )
