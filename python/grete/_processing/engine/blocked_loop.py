"""Diagnosis of a blocked event loop: which handler blocks it, and where in its code."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from grete import _native
from grete._process import stacks
from grete._processing.engine.running_jobs import format_offsets
from grete._routing.routes import Route

if TYPE_CHECKING:
    from grete._processing.engine.host_loop import HostLoop
    from grete._processing.engine.loop_thread import LoopThread

_REMEDY = "await what takes long, or call it with asyncio.to_thread"


class BlockedLoop(NamedTuple):
    """Diagnosis of a blocked event loop."""

    text: str
    """Log line, like "the event loop has been blocked for 2.0 s by charge on orders[3] ...: ..."."""
    stack: str
    """Python stack of the loop's thread; "" if the loop runs again, or does not run at all."""
    fields: Mapping[str, object]
    """Fields of the event: seconds, and if known handler, topic, partition, slot, first_offset, last_offset."""


def describe(
    dispatcher: _native.Dispatcher, routes: Mapping[int, Route], loop: "LoopThread | HostLoop", seconds: float
) -> BlockedLoop:
    """Describes what blocks the loop. `seconds`: duration in the log event. The loop may have been unblocked since."""
    has = f"{loop.title} has been blocked for"
    others = "all async handlers of this process wait for it"
    if not loop.is_running:
        return BlockedLoop(f"{loop.title} has not run for {seconds:.1f} s: {others}", "", {"seconds": seconds})
    task = loop.runner.current
    stack = stacks.of_threads([loop.ident]).get(loop.ident or 0, "")
    job = next((job for job, of_job in loop.runner.tasks.values() if of_job is task), None)
    now = dispatcher.loop_wait(job)
    if now is None or now < seconds / 2 or loop.runner.current is not task:
        return BlockedLoop(f"{loop.title} had been blocked for {seconds:.1f} s: {others}", "", {"seconds": seconds})
    fields: dict[str, object] = {"seconds": now, "stack": stack}
    if job is None:
        what = "a callback" if task is None else f"task {task.get_name()}"
        return BlockedLoop(f"{has} {now:.1f} s by {what}, which is no handler: {others}; {_REMEDY}", stack, fields)
    route = routes.get(job.route)
    handler = route.name if route is not None else "a handler"
    fields |= {"handler": handler, "topic": job.topic, "partition": job.partition, "slot": job.slot}
    messages = job.messages
    if messages is not None and len(messages):
        fields |= {"first_offset": messages.first_offset, "last_offset": messages.last_offset}
    place = f"{handler} on {job.topic}[{job.partition}]{format_offsets(job)}"
    return BlockedLoop(f"{has} {now:.1f} s by {place}: {others}; {_REMEDY}", stack, fields)
