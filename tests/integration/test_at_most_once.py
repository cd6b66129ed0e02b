"""At most once: offsets are stored before the handler sees a record."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.app_process import AppRun
from tests.kafka import KafkaCluster, fill

pytestmark = pytest.mark.kafka
TARGET = "tests.integration.apps.at_most_once:app"


def test_a_record_whose_handler_dies_does_not_come_again(
    kafka: KafkaCluster, topic: str, group: str, tmp_path: Path
) -> None:
    kafka.create_topic(topic, partitions=1)
    fill(kafka.bootstrap_servers, topic, 50)
    settings = {"ONCE_SERVERS": kafka.bootstrap_servers, "ONCE_TOPIC": topic, "ONCE_GROUP": group}
    seen: list[int] = []

    def note(run: AppRun) -> None:
        for row in run.seen:
            for first, last in row["runs"]:
                seen.extend(range(first, last + 1))

    for _ in range(2):
        with AppRun(TARGET, tmp_path, settings | {"ONCE_DIES": 1}) as run:
            assert run.wait(60.0) == 9, run.output
            note(run)
    with AppRun(TARGET, tmp_path, settings | {"ONCE_DIES": 0}) as run:
        run.until(lambda: kafka.admin.lag(group, [topic]) == 0, 60.0, "all committed")
        run.until(lambda: any(row["runs"][-1][-1] == 49 for row in run.seen), 60.0, "all seen")
        assert run.stop() == 0, run.output
        note(run)
    assert seen == list(range(50)), "each once, in order: lost are only records that no handler has begun"
