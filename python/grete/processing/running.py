"""What handlers are doing just now, with their Python stacks: for the report of a stop that takes too long."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from grete._core import Job
from grete.processing import stacks
from grete.processing.worker import Worker
from grete.routes import Route

if TYPE_CHECKING:
    from grete._core import _RunningJob

    # Not otherwise: this may be imported first when the interpreter ends: too late for concurrent.futures.
    from grete.processing.loop import LoopWorker


class Running(NamedTuple):
    """One job that runs."""

    topic: str
    partition: int
    slot: int
    text: str
    """Like "Orders.consume on orders[3] offsets 5..9 for 12.3 s in grete-worker-2"."""
    stack: str
    """Its Python stack, in lines; "" if it has none just now."""


def describe(
    running: "Sequence[_RunningJob]",
    routes: Mapping[int, Route],
    workers: Sequence[Worker],
    loop: "LoopWorker | None",
) -> Iterator[Running]:
    """What `Dispatcher.running` tells, in words."""
    threads = stacks.of_threads([worker.ident for worker in workers] + ([] if loop is None else [loop.ident]))
    by_name = {worker.name: worker for worker in workers}
    tasks = {} if loop is None else {_key(job): task for job, task in loop.tasks.values()}
    jobs = {} if loop is None else {_key(job): job for job, _ in loop.tasks.values()}
    for row in running:
        worker, stack = by_name.get(row["worker"]), ""
        key = (row["topic"], row["partition"], row["route"], row["slot"])
        job: Job | None
        if worker is not None:
            job, where = worker.job, worker.name
            stack = threads.get(worker.ident or 0, "")
        elif loop is not None and (task := tasks.get(key)) is not None:
            job, where = jobs[key], loop.name
            # A task that has the thread has no stack of its own just now: the thread's is it.
            stack = threads.get(loop.ident or 0, "") if task is loop.current else stacks.of_task(task)
        else:
            job, where = None, row["worker"]
        route = routes.get(row["route"])
        name = route.name if route is not None else row["handler"]
        if row["kind"] != "consume":
            name = f"{name.removesuffix('.consume')}.{row['kind']}"
        text = f"{name} on {row['topic']}[{row['partition']}]{_offsets(job)} for {row['seconds']:.1f} s in {where}"
        yield Running(row["topic"], row["partition"], row["slot"], text, stack)


def _key(job: Job) -> tuple[str, int, int, int]:
    return job.topic, job.partition, job.route, job.slot


def _offsets(job: Job | None) -> str:
    messages = job.messages if job is not None else None
    if messages is None or not len(messages):
        return ""
    return f" offsets {messages.first_offset}..{messages.last_offset}"
