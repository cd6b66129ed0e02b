"""Files of results: JSON for machines, Markdown and SVG for pages."""

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


def circumstances(broker: Broker | None = None) -> dict[str, Any]:
    """Facts that belong to every table: machine, versions, date; the broker, if there is one."""
    facts = {"date": datetime.now(UTC).date().isoformat(), "machine": machine(), "python": platform.python_version()}
    return facts if broker is None else facts | {"broker": {"version": broker.version, "settings": broker.settings}}


def paragraph(facts: Mapping[str, Any]) -> str:
    """The same as a sentence."""
    box, broker = facts["machine"], facts.get("broker")
    kafka = f"{facts['kafka']} broker" if "kafka" in facts else "no broker"
    if broker:
        kafka = f"loopback; Apache Kafka {broker['version']} ({broker['settings']})"
    return (
        f"Measured {facts['date']}: {box['cpu']}, {box['cores']} cores, {box['memory']}, {box['system']}, {kafka}; "
        f"Python {facts['python']}."
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
