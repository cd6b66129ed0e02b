"""Functions of one record, slow ones: a stop waits for the record that has begun, not for the batch."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.app_process import AppRun
from tests.kafka import KafkaCluster, fill

pytestmark = pytest.mark.kafka
TARGET = "tests.integration.apps.slow:app"
COUNT = 500
# Of seconds that a stop may take: the whole batch would take longer by far.
PATIENCE = 30


@pytest.mark.parametrize("style", ["sync", "async"])
def test_a_stop_in_the_middle_of_a_batch_of_slow_records(
    kafka: KafkaCluster, topic: str, group: str, tmp_path: Path, style: str
) -> None:
    kafka.create_topic(topic, partitions=1)
    fill(kafka.bootstrap_servers, topic, COUNT)
    settings = {
        "SLOW_SERVERS": kafka.bootstrap_servers,
        "SLOW_TOPIC": topic,
        "SLOW_GROUP": group,
        "SLOW_STYLE": style,
        "SLOW_PATIENCE": f"{PATIENCE}s",
    }

    def done(run: AppRun) -> list[int]:
        return [row["offset"] for row in run.seen]

    with AppRun(TARGET, tmp_path, settings | {"SLOW_WORK": 0.2}) as first:
        first.until(lambda: len(done(first)) >= 5, 60.0, "some records")
        assert first.stop(seconds=PATIENCE) == 0, "not forced, long before the batch's end"
        handled = done(first)
        assert handled == [*range(len(handled))]
        assert len(handled) < PATIENCE / 0.2, "it did not go on with the batch"
        assert kafka.admin.committed(group) == {(topic, 0): len(handled)}
        assert kafka.admin.members(group) == {}, "it has left the group"
        for unwanted in ("failed", "Traceback", "ERROR"):
            assert unwanted not in first.output, first.output

    with AppRun(TARGET, tmp_path, settings | {"SLOW_WORK": 0.0}) as second:
        second.until(lambda: len(done(second)) >= COUNT - len(handled), 60.0, "all records")
        assert second.stop() == 0
        assert handled + done(second) == [*range(COUNT)], "none lost, none twice"
        assert kafka.admin.committed(group) == {(topic, 0): COUNT}
