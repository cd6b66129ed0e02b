"""Pages of the reference whose snippets no other test runs: each snippet runs, with what the page takes for granted."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import pytest

import grete
from grete.broker import Broker

DOCS = Path(__file__).parents[2] / "docs"
PAGES = ("declaring", "processing", "producing", "racks", "static-membership", "tracing")


@dataclass
class Order:
    """Payload of the snippets."""

    id: int = 0
    amount: float = 0.0


@pytest.mark.parametrize("page", PAGES)
def test_the_snippets_of_a_page_run(page: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path = DOCS / f"{page}.md"
    text = path.read_text()
    blocks = re.findall("```python\n(.*?)```", text, re.DOTALL)
    assert blocks
    with Broker(topics=["orders"]) as broker:
        module = ModuleType("page")
        monkeypatch.setitem(sys.modules, "page", module)
        for block in blocks:
            vars(module).update(grete=grete, app=grete.App("shop"), Order=Order)
            own = block.replace("localhost:9092", broker.bootstrap_servers)
            line = text.split(block)[0].count("\n")
            exec(compile("\n" * line + own, str(path), "exec"), vars(module))
