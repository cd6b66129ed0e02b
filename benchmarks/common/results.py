"""Where results go: JSON for machines, markdown and SVG for pages."""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from .broker import Broker
from .process import machine

RESULTS = Path(__file__).resolve().parents[1] / "results"


def circumstances(broker: Broker) -> dict[str, Any]:
    """What belongs to every table: machine, versions, date."""
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "machine": machine(),
        "broker": {"version": broker.version, "settings": broker.settings},
        "python": platform.python_version(),
    }


def paragraph(facts: Mapping[str, Any]) -> str:
    """The same as a sentence."""
    box, broker = facts["machine"], facts["broker"]
    return (
        f"Measured {facts['date']}: {box['cpu']}, {box['cores']} cores, {box['memory']}, {box['system']}, loopback; "
        f"Apache Kafka {broker['version']} ({broker['settings']}); Python {facts['python']}."
    )


def write(directory: Path, name: str, data: Mapping[str, Any], markdown: str, svg: str | None = None) -> list[Path]:
    """NAME.json, NAME.md and, if there is one, NAME.svg."""
    directory.mkdir(parents=True, exist_ok=True)
    texts = {".json": json.dumps(data, indent=1) + "\n", ".md": markdown.rstrip() + "\n"}
    if svg is not None:
        texts[".svg"] = svg
    paths = []
    for suffix, text in texts.items():
        paths.append(directory / f"{name}{suffix}")
        paths[-1].write_text(text)
    return paths
