"""Routes of queues: their settings, and their handlers without a broker."""

from __future__ import annotations

import pytest

import grete
from grete import testing


def queue_app() -> grete.App:
    app = grete.App("shop", kafka={"bootstrap.servers": "localhost:1"})

    @app.consumer("tasks", queue=True, dead_letter="tasks.dead", publish="results", retry=grete.Retry(attempts=2))
    def work(message: grete.Message) -> bytes:
        if message.value == b"bad":
            raise ValueError("bad")
        return b"done " + (message.value or b"")

    return app


def test_handlers_of_a_queue_run_without_a_broker() -> None:
    run = testing.consume(queue_app(), "tasks", [b"a", b"bad", b"c"])
    assert sorted(record.value or b"" for record in run.produced["results"]) == [b"done a", b"done c"]
    assert [letter.value for letter in run.dead] == [b"bad"]
    assert run.marked == [0, 2]
    assert run.attempts == {0: 1, 1: 2, 2: 1}
    assert run.committed is None, "a queue commits no offset"


@pytest.mark.parametrize(
    ("settings", "word"),
    [
        ({"offsets": "manual"}, "offsets"),
        ({"concurrency": "key"}, "concurrency"),
        ({"exactly_once": True}, "exactly_once"),
        ({"dedup": "key"}, "dedup"),
        ({"delay": "1m"}, "delay"),
        ({"partitions": [0]}, "partitions"),
        ({"max_unmarked": 5}, "max_unmarked"),
    ],
)
def test_settings_that_a_queue_has_no_use_for_are_refused(settings: dict[str, object], word: str) -> None:
    app = grete.App("shop")
    with pytest.raises(grete.ConfigError, match=rf"{word}.* does not work in a queue|{word}.*queue has none"):

        @app.consumer("tasks", queue=True, **settings)  # type: ignore[arg-type]
        class Work(grete.Consumer):
            def consume(self) -> None:
                """Does nothing."""


def test_a_group_is_a_queue_or_none() -> None:
    app = queue_app()

    @app.consumer("orders")
    def other(message: grete.Message) -> None:
        """Does nothing."""

    with pytest.raises(grete.ConfigError, match="would be a share group for work"):
        app.start()


@pytest.mark.parametrize(
    ("workers", "settings", "expected"),
    [(5, {}, 5), (5, {"max_concurrency": 2}, 2), (5, {"max_messages": 10}, 50)],
)
def test_a_process_takes_what_its_workers_can_run(workers: int, settings: dict[str, int], expected: int) -> None:
    app = grete.App("shop")

    @app.consumer("tasks", queue=True, **settings)  # type: ignore[arg-type]
    def work(message: grete.Message) -> None:
        """Does nothing."""

    assert app.routes[0].queue_concurrency(workers) == expected


def test_asynchronous_handlers_of_a_queue_are_a_hundred_at_once() -> None:
    app = grete.App("shop")

    @app.consumer("tasks", queue=True)
    async def work(message: grete.Message) -> None:
        """Does nothing."""

    assert app.routes[0].queue_concurrency(5) == 100
