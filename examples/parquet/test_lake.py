"""Tests of the files: one batch, a crash in between, and several partitions on an embedded broker."""

from pathlib import Path

import polars
import pytest

from examples.parquet.lake import app, clicks
from grete import testing


def click(number: int) -> dict[str, object]:
    return {"user": f"u{number % 3}", "page": f"/{number % 2}", "seconds": float(number)}


@pytest.fixture(autouse=True)
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LAKE", str(tmp_path))
    return tmp_path


def test_a_batch_is_a_file(lake: Path) -> None:
    testing.consume(app, "clicks", [click(number) for number in range(5)]).raise_first()
    (path,) = lake.rglob("*.parquet")
    assert path.relative_to(lake) == Path("clicks/partition=0/00000000000000000000.parquet")
    frame = polars.read_parquet(path)
    assert frame.columns == ["offset", "timestamp", "user", "page", "seconds"]
    assert frame["seconds"].to_list() == [0.0, 1.0, 2.0, 3.0, 4.0]


def test_what_was_written_and_not_committed_is_replaced(lake: Path) -> None:
    testing.consume(app, "clicks", [click(number) for number in range(3)]).raise_first()
    (lake / "clicks" / "partition=0" / "00000000000000000002.part").write_text("half a file")
    # The owner died before its commit, and the next one gets a larger batch.
    testing.consume(app, "clicks", [click(number) for number in range(5)]).raise_first()
    assert clicks().select("offset").collect()["offset"].to_list() == [0, 1, 2, 3, 4]
    assert list(lake.rglob("*.part")) == []


@pytest.mark.kafka(topics={"clicks": 3})
def test_each_record_is_in_one_file_after_a_crash(kafka: testing.Kafka) -> None:
    with kafka.run(app, max_wait="0s", max_messages=7) as running, kafka.crash(running):
        for number in range(30):
            kafka.produce("clicks", click(number), key=f"u{number % 3}")
    with kafka.run(app, max_wait="0s", max_messages=4) as running:
        for number in range(30, 60):
            kafka.produce("clicks", click(number), key=f"u{number % 3}")
        running.settle(30)
    frame = clicks().collect()
    assert sorted(frame["seconds"].to_list()) == [float(number) for number in range(60)]
    assert frame.select("partition", "offset").is_duplicated().sum() == 0
