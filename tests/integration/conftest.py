"""Apps as processes, and where they write; a broker behind a proxy that loses chosen frames."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.integration.app_process import AppRun
from tests.integration.frame_proxy import FrameProxy, proxied_cluster
from tests.integration.trace_agent import Agent, running_agent
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


@pytest.fixture(scope="module")
def behind() -> Iterator[tuple[KafkaCluster, FrameProxy]]:
    with proxied_cluster() as pair:
        yield pair


@pytest.fixture
def proxy(behind: tuple[KafkaCluster, FrameProxy]) -> Iterator[FrameProxy]:
    """The proxy, that passes everything again afterwards."""
    behind[1].treat()
    yield behind[1]
    behind[1].release()


@pytest.fixture
def broker(behind: tuple[KafkaCluster, FrameProxy], proxy: FrameProxy, topic: str) -> KafkaCluster:
    """The broker behind the proxy, with an empty topic of one partition."""
    behind[0].create_topic(topic)
    return behind[0]


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Agent]:
    """Datadog's test agent, for tests that `needs_agent`."""
    with running_agent(tmp_path_factory.mktemp("agent")) as agent:
        yield agent
