"""docs/schema-registry.md: its snippets are run, and the command that it names cures the error that names it."""

import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import grete
from grete import _native
from grete.payloads import Avro
from tests.unit.fake_registry import FakeRegistry
from tests.unit.record_batches import Record, batch

PAGE = Path(__file__).parents[2] / "docs" / "schema-registry.md"


@pytest.fixture
def registry() -> Iterator[FakeRegistry]:
    with FakeRegistry() as fake:
        yield fake


def snippets(registry: FakeRegistry) -> dict[str, Any]:
    module = ModuleType("shop_page")
    text = PAGE.read_text()
    for block in re.findall("```python\n(.*?)```", text, re.DOTALL):
        line = text.split(block)[0].count("\n")
        code = block.replace("http://localhost:8081", registry.url)
        exec(compile("\n" * line + code, str(PAGE), "exec"), module.__dict__)
    return vars(module)


def count_clicks(shop: dict[str, Any], registry: FakeRegistry, output: Any) -> None:
    """The handler of columns gets two versions of clicks, and prints one of their columns."""
    newer = {**shop["click"], "fields": [{"name": "user", "type": "long", "default": -1}, *shop["click"]["fields"]]}
    old = Avro(registry.url, schema=shop["click"], auto_register=True).encoder("clicks")({"url": "/old"})
    new = Avro(registry.url, schema=newer, auto_register=True).encoder("clicks")({"url": "/new", "user": 3})
    records = [Record(at, value) for at, value in enumerate([new, None, old, old])]
    shop["count"](_native._testing_decode(batch(records), "clicks", 0))
    printed = output().out
    for url, count in (("/old", 2), ("/new", 1), ("null", 1)):
        assert re.search(rf"{url} +┆ {count}", printed), printed


def test_the_page_shows_what_is_so(
    registry: FakeRegistry, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import sys

    shop = snippets(registry)
    monkeypatch.setitem(sys.modules, "shop_page", ModuleType("shop_page"))
    order = shop["Order"](7, "ann", "x")
    with pytest.raises(grete.SchemaNotFoundError, match=r"grete schemas register MODULE:APP"):
        shop["encode"](order)
    assert shop["plain"].encoder("clicks") is not None
    assert registry.versions.keys() == {"events-shop.Order", "events-shop.Invoice"}
    app = grete.App("shop")
    app.consumer("orders", payload=shop["orders"])(lambda order: None)
    from grete._cli.schemas import declared

    (one,) = declared.declarations(app, ())
    assert declared.register(one).version == 1
    assert shop["decode"](shop["encode"](order)) == order
    count_clicks(shop, registry, capsys.readouterr)
    assert shop["registry"].url == "https://registry-1:8081,https://registry-2:8081"
