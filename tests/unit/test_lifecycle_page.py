"""docs/lifecycle.md and docs/frameworks.md: what they show runs."""

from __future__ import annotations

import asyncio
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import grete
from grete import testing

DOCS = Path(__file__).parents[2] / "docs"
EXAMPLES = Path(__file__).parents[2] / "examples"


def run(page: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The names of the page's blocks, which are run as one module."""
    text = (DOCS / page).read_text()
    module = ModuleType(f"snippets_{page.partition('.')[0]}")
    monkeypatch.setitem(sys.modules, module.__name__, module)  # Litestar looks for annotations there
    names = vars(module)
    for block in re.findall("```python\n(.*?)```", text, re.DOTALL):
        line = text.split(block)[0].count("\n")
        exec(compile("\n" * line + block, page, "exec"), names)
    return names


@pytest.mark.usefixtures("empty_directory")
def test_hooks_and_lifespan_of_the_page_open_the_pool_that_handlers_use(monkeypatch: pytest.MonkeyPatch) -> None:
    names = run("lifecycle.md", monkeypatch)
    done: list[object] = []

    async def execute(_pool: object, query: str, *values: object) -> None:
        done.append(values)

    async def close(_pool: object) -> None:
        done.append("closed")

    names["Pool"].execute, names["Pool"].close = execute, close
    assert testing.consume(names["app"], "orders", [b"1"]).marked == [0]
    assert done == [(b"1",), "closed"]

    billing: grete.App = names["billing"]

    @billing.consumer("orders")
    async def charge(message: grete.Message) -> None:
        await billing.state.pool.execute("insert", message.value)

    asyncio.run(testing.consume_async(billing, "orders", [b"2"]))
    assert done[2:] == [(b"2",), "closed"]


def test_the_services_of_the_page_have_their_routes(monkeypatch: pytest.MonkeyPatch) -> None:
    names = run("frameworks.md", monkeypatch)
    assert {"/orders", "/payments"} <= {route.path for route in names["api"].routes}
    assert "/orders" in {route.path for route in names["litestar_api"].routes}


def test_the_page_shows_the_project_of_the_example() -> None:
    page = (DOCS / "frameworks.md").read_text()
    (block,) = re.findall("```\n# shop/stream.py\n(.*?)```", page, re.DOTALL)
    example = (EXAMPLES / "django_shop" / "shop" / "stream.py").read_text().splitlines()
    assert [line for line in block.splitlines() if line not in example] == []
