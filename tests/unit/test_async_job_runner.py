"""Jobs as tasks: the order in which a task ends and its job comes back."""

import asyncio
import contextvars
from types import SimpleNamespace
from typing import Any

from grete._processing.engine.async_job_runner import AsyncJobRunner


def test_a_job_that_comes_back_before_its_task_is_forgotten_is_not_cancelled() -> None:
    """A record that the job has produced fails at once: the job is handed out again while the first task ends."""
    job: Any = SimpleNamespace(id=7)
    runs: list[int] = []
    cancelled: list[object] = []
    failed: list[BaseException] = []
    tasks: list[asyncio.Task[None]] = []

    async def run(job: Any) -> None:
        runs.append(job.id)
        if len(runs) == 2:
            await asyncio.sleep(0.01)  # it still runs when the callback of the first task does

    def complete(job: Any) -> None:
        if len(runs) == 1:
            tasks.append(runner.start_job(job, contextvars.copy_context()))

    dispatcher: Any = SimpleNamespace(begin=lambda job: None, complete=complete)
    failures: Any = SimpleNamespace(return_cancelled=lambda job, error: cancelled.append(job), fail=None)
    control: Any = SimpleNamespace(fail=failed.append)
    hooks: Any = SimpleNamespace(run=run, ready_instance=lambda job: None)
    runner = AsyncJobRunner(dispatcher, hooks, failures, control, "test", on_host_loop=False)

    async def main() -> None:
        await runner.start_job(job, contextvars.copy_context())
        await asyncio.sleep(0)
        assert runner.started_jobs == 1
        await tasks[0]
        await asyncio.sleep(0)

    asyncio.run(main())
    assert (runs, cancelled, failed, dict(runner.tasks)) == ([7, 7], [], [], {})
