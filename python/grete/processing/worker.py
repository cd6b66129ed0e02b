"""The threads that run handlers."""

import logging
import threading
from typing import Protocol

from grete import _core
from grete.processing.hooks import Hooks

logger = logging.getLogger("grete")

# These end the process gracefully; a retry would only repeat them.
FATAL = (SystemExit, KeyboardInterrupt, MemoryError)


class Control(Protocol):
    """What a worker can say to the thread that runs the App."""

    def fail(self, error: BaseException) -> None:
        """Stop everything, gracefully, because of this."""

    def ending(self, thread: threading.Thread) -> None:
        """The thread does nothing any more but return."""


class Worker(threading.Thread):
    """Takes jobs straight from the dispatcher: the call that gives a job back brings the next one."""

    def __init__(self, number: int, dispatcher: _core.Dispatcher, hooks: Hooks, control: Control) -> None:
        super().__init__(name=f"grete-worker-{number}", daemon=False)
        self._number = number
        self._dispatcher = dispatcher
        self._hooks = hooks
        self._control = control

    def run(self) -> None:
        """Works until the dispatcher says that it is over."""
        try:
            self._work(_core.Worker(self.name, self._dispatcher, self._number))
        except BaseException as error:
            self._control.fail(error)
        finally:
            self._control.ending(self)

    def _work(self, worker: _core.Worker) -> None:
        done: _core.Job | None = None
        while (job := self._dispatcher.next(worker, done)) is not None:
            done = job if self._succeeds(job) else None

    def _succeeds(self, job: _core.Job) -> bool:
        """Whether the job is still to be given back; one that failed has been."""
        try:
            self._hooks.run(job)
        except FATAL as error:
            _log_failure(self._hooks.name(job), job, error, "the App stops")
            self._control.fail(error)  # stops the dispatcher before this job is given back: it is not tried again
            self._dispatcher.fail(job, "fatal", type(error).__qualname__, str(error))
            return False
        except BaseException as error:
            _log_failure(self._hooks.name(job), job, error, "retrying" if job.kind == "consume" else "going on")
            offset = job.culprit(error) if job.kind == "consume" else None
            self._dispatcher.fail(job, "retry", type(error).__qualname__, str(error), offset=offset)
            return False
        return True


def _log_failure(handler: str, job: _core.Job, error: BaseException, what_next: str) -> None:
    place = f"{job.topic}[{job.partition}]"
    fields: dict[str, object] = {
        "event": "consumer.error",
        "handler": handler,
        "hook": job.kind,
        "topic": job.topic,
        "partition": job.partition,
        "attempt": job.attempt,
    }
    messages = job.messages
    if messages is not None and len(messages):
        place += f" offsets {messages.first_offset}..{messages.last_offset}"
        fields |= {"first_offset": messages.first_offset, "last_offset": messages.last_offset}
    level = logging.CRITICAL if isinstance(error, FATAL) else logging.ERROR
    summary = f"{type(error).__name__}: {error}"
    text = "%s failed (%s, %s, attempt %d): %s; %s"
    logger.log(level, text, handler, job.kind, place, job.attempt, summary, what_next, exc_info=error, extra=fields)
