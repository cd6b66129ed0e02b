"""Descriptions of running jobs with their Python stacks, for reports of slow ones."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from grete._native import Job
from grete._plural import counted
from grete._process import stacks
from grete._processing.engine.worker import Worker
from grete._routing.routes import Route

if TYPE_CHECKING:
    from grete._native import _RunningJob

    # For type checkers only: this module may be imported at interpreter exit, too late for concurrent.futures.
    from grete._processing.engine.host_loop import HostLoop
    from grete._processing.engine.loop_thread import LoopThread


class RunningJob(NamedTuple):
    """Description of one running job."""

    topic: str
    partition: int
    slot: int
    text: str
    """Text like "Orders.consume on orders[3] offsets 5..9 for 12.3 s in grete-worker-2"."""
    stack: str
    """Python stack in lines; "" if the job has none at the moment."""
    seconds: float
    """How long the job has run or waited."""


def describe_jobs(
    running: "Sequence[_RunningJob]",
    routes: Mapping[int, Route],
    workers: Sequence[Worker],
    loop: "LoopThread | HostLoop | None",
) -> Iterator[RunningJob]:
    """Yields descriptions of the jobs that `Dispatcher.running` lists."""
    threads = stacks.of_threads([worker.ident for worker in workers] + ([] if loop is None else [loop.ident]))
    by_name = {worker.name: worker for worker in workers}
    tasks = {} if loop is None else {_key(job): task for job, task in loop.runner.tasks.values()}
    jobs = {} if loop is None else {_key(job): job for job, _ in loop.runner.tasks.values()}
    for row in running:
        # A job whose handler has returned runs in no thread.
        worker, stack = by_name.get(row["worker"]) if row["undelivered"] is None else None, ""
        key = (row["topic"], row["partition"], row["route"], row["slot"])
        job: Job | None
        if worker is not None:
            job, where = worker.job, worker.name
            stack = threads.get(worker.ident or 0, "")
        elif loop is not None and (task := tasks.get(key)) is not None:
            job, where = jobs[key], loop.name
            # A task that is running has no stack of its own; its stack is that of the loop's thread.
            if row["begun"]:
                stack = threads.get(loop.ident or 0, "") if task is loop.runner.current else stacks.of_task(task)
        else:
            job, where = None, row["worker"]
        route = routes.get(row["route"])
        name = route.name if route is not None else row["handler"]
        if row["kind"] != "consume":
            name = f"{name.removesuffix('.consume')}.{row['kind']}"
        place = f"{name} on {row['topic']}[{row['partition']}]"
        if row["undelivered"] is not None:
            text = f"{place} has returned and waits for {counted(row['undelivered'], 'record')} that it produced"
        elif row["begun"]:
            text = f"{place}{format_offsets(job)} for {row['seconds']:.1f} s in {where}"
        else:
            text = f"{place}{format_offsets(job)} has not begun, and has waited for {where} for {row['seconds']:.1f} s"
        yield RunningJob(row["topic"], row["partition"], row["slot"], text, stack, row["seconds"])


def _key(job: Job) -> tuple[str, int, int, int]:
    return job.topic, job.partition, job.route, job.slot


def format_offsets(job: Job | None) -> str:
    """Formats offsets like " offsets 5..9"; "" without records."""
    messages = job.messages if job is not None else None
    if messages is None or not len(messages):
        return ""
    return f" offsets {messages.first_offset}..{messages.last_offset}"
