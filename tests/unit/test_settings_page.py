"""Each setting is shown with type, unit and default wherever users look, and is written down once."""

import inspect
import pydoc
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import grete
import grete.client
from grete._config import layers
from grete._config.parsers import Setting
from grete._config.registry import ROUTE_SETTINGS, SETTINGS
from grete._routing.setting_types import AppSettings, RouteSettings
from tests.unit import settings_page


def test_the_page_and_the_docstrings_are_made_of_the_tables() -> None:
    for file, text in settings_page.files():
        assert file.read_text() == text, f"{file} is out of date: python -m tests.unit.settings_page writes it"


def test_each_setting_with_a_duration_or_a_size_has_its_unit() -> None:
    for types, table in ((AppSettings, SETTINGS), (RouteSettings, ROUTE_SETTINGS)):
        for name, annotation in types.__annotations__.items():
            if annotation == str | float:
                assert table[name].unit == "seconds", name
            if "bytes" in name:
                assert table[name].unit == "bytes", name


@pytest.mark.parametrize(
    ("function", "types", "table"),
    [
        (grete.App, AppSettings.__annotations__, SETTINGS),
        (grete.App("a").consumer, RouteSettings.__annotations__, ROUTE_SETTINGS),
    ],
    ids=["App", "consumer"],
)
def test_the_signature_shows_each_setting_with_its_default(
    function: Any, types: Mapping[str, Any], table: Mapping[str, Setting]
) -> None:
    parameters = inspect.signature(function).parameters
    assert not [one for one in parameters.values() if one.kind is inspect.Parameter.VAR_KEYWORD]
    for name, annotation in types.items():
        assert parameters[name].annotation == annotation
        if name in table:
            assert parameters[name].default == table[name].default


@pytest.mark.parametrize(
    ("thing", "wanted"),
    [
        (grete.App, 'shutdown_timeout (str | float, seconds, default "30s")'),
        (grete.App("a").consumer, "max_in_flight (int, default 4096)"),
        (grete.client.Producer, "linger.ms (int, milliseconds, default 5)"),
        (grete.client.Producer, "max_block"),
        (grete.client.Consumer, "auto.offset.reset (str, default earliest)"),
        (grete.client.Admin, "request.timeout.ms (int, milliseconds, default 30000)"),
        (grete.Retry, "backoff: "),
    ],
)
def test_help_shows_the_settings(thing: object, wanted: str) -> None:
    text = pydoc.plain(pydoc.render_doc(thing))
    assert wanted in text
    assert "**settings" not in text.partition("consumer(self")[0]


def snippets(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", settings_page.PAGE.read_text(), re.MULTILINE | re.DOTALL)


def test_the_file_on_the_page_is_accepted(tmp_path: Path) -> None:
    (text,) = snippets("toml")
    file = tmp_path / "grete.toml"
    file.write_text(text)
    layer = layers.file_layer({"GRETE_CONFIG": str(file)})
    assert (layer.settings["workers"].value, layer.swarm["nodes"].value) == (10, 4)
    assert {name: value.value for name, value in layer.kafka.items()} == {
        "bootstrap.servers": "broker:9092",
        "session.timeout.ms": "45000",
    }


def test_the_code_on_the_page_runs() -> None:
    (code,) = snippets("python")
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
