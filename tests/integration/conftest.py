"""Apps as processes, and where they write."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.integration.apprun import AppRun
from tests.kafka import KafkaCluster

RECORDER = "tests.integration.apps.recorder:app"
StartRecorder = Callable[..., AppRun]


@pytest.fixture
def start_recorder(tmp_path: Path) -> Iterator[StartRecorder]:
    """Starts `apps.recorder` processes: start_recorder(cluster, topic, group, work=0.01, workers=3, ...)."""
    with ExitStack() as stack:

        def start(cluster: KafkaCluster, topic: str, group: str, **settings: object) -> AppRun:
            environment: dict[str, object] = {
                "RECORDER_SERVERS": cluster.bootstrap_servers,
                "RECORDER_TOPIC": topic,
                "RECORDER_GROUP": group,
            }
            environment |= {f"RECORDER_{name.upper()}": value for name, value in settings.items()}
            return stack.enter_context(AppRun(RECORDER, tmp_path, environment))

        yield start
