"""Runs the notebook on an embedded broker, and reads what its last cells have computed."""

import json
import re
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

from grete import testing

NOTEBOOK = Path(__file__).parent / "payments.ipynb"


def read() -> Any:
    return nbformat.read(NOTEBOOK, as_version=4)  # type: ignore[no-untyped-call]


def run(directory: Path) -> list[str]:
    """Returns the text of each cell's result."""
    notebook = read()
    NotebookClient(notebook, timeout=60, kernel_name="python3", resources={"metadata": {"path": directory}}).execute()
    return [
        output["data"]["text/plain"]
        for cell in notebook.cells
        if cell.cell_type == "code"
        for output in cell.outputs
        if output.output_type == "execute_result"
    ]


@pytest.mark.kafka(topics={"payments": 2})
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_the_notebook_runs_from_top_to_bottom(
    kafka: testing.Kafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GRETE_KAFKA_BOOTSTRAP_SERVERS", kafka.bootstrap_servers)
    _, by_country, last = run(tmp_path)
    values = [json.loads(value) for value in kafka.values("payments")]
    assert len(values) == 1000
    for country in ("DE", "FR", "GB"):
        mine = [value["cents"] for value in values if value["country"] == country]
        assert re.search(rf"│ {country} +┆ {len(mine)} +┆ {sum(mine)} +│", by_country), by_country
    assert re.findall(r"│ (\d) +┆ (\d+) +│", last) == [("0", "10"), ("1", "10")]


def test_the_notebook_is_stored_without_results() -> None:
    notebook = read()
    assert [cell.outputs for cell in notebook.cells if cell.cell_type == "code" and cell.outputs] == []
