"""Main function of a node's process, from the fork to its end."""

import atexit
import contextlib
import functools
import logging
import os
import signal
import threading
import weakref
from collections.abc import Callable
from typing import NoReturn

from grete import _native
from grete._process import forks
from grete._process.node import BLOCKED_SIGNALS, NodeContext, set_node_name
from grete._swarm.node import file_buffers
from grete._swarm.node.inherited_fds import InheritedFds
from grete._swarm.node.report import LastError
from grete.errors import GreteError
from grete.instrumentation.emit import log_and_emit
from grete.instrumentation.monitor import Monitor

logger = logging.getLogger("grete")

NodeMain = Callable[[NodeContext], object]
"""Body of a node. A return is exit status 0, an exception 1, a SystemExit its code if that is 0, 1 or 2."""

# Python itself ignores these signals, to get an OSError instead.
_PYTHON_IGNORED_SIGNALS = frozenset({signal.SIGPIPE, signal.SIGXFSZ})
_ORPHANED_STATUS = 3

# A user who sets one of these has chosen how glibc's malloc behaves.
_MALLOC_VARIABLES = frozenset({"MALLOC_MMAP_THRESHOLD_", "GLIBC_TUNABLES"})
# Below it lie the blocks that handlers make; returning one of this size costs a tenth of filling it.
_MAPPED_BLOCK_BYTES = 1 << 20


def run_child(
    context: NodeContext, main: NodeMain, inherited: InheritedFds, monitor: Monitor | None = None
) -> NoReturn:
    """Runs a forked child to its end. The caller has blocked all signals since before the fork.

    Ends the process in any case, because the frames below belong to the supervisor.
    """
    status = 1
    log_failure = functools.partial(
        log_and_emit, monitor, logger, logging.ERROR, "swarm.node.failed", fields={"node": context.id}
    )
    try:
        _set_up_child(context, inherited)
        set_node_name(context.name)
        status = _run(context, main, log_failure)
    except BaseException as error:
        log_failure("%s has ended", context.name, error=error)
    finally:
        try:
            status = _finish(status, log_failure)
        finally:
            os._exit(status)


def _set_up_child(context: NodeContext, inherited: InheritedFds) -> None:
    # First the wake-up fd: a signal's byte in the shared pipe would be read by the supervisor.
    signal.set_wakeup_fd(-1)
    _reset_signals()
    inherited.close()
    # A terminal sends Ctrl-C to its foreground group: to the supervisor alone, which then stops its nodes in order.
    os.setpgid(0, 0)
    if _native.die_with_parent() and os.getppid() != context.supervisor_pid:
        # The parent died between the fork and `die_with_parent`: the kernel would send no signal any more.
        os._exit(_ORPHANED_STATUS)
    # Freed buffers of responses are otherwise kept: a third of what a node with a small `queued_bytes` has of its own.
    if not _MALLOC_VARIABLES & os.environ.keys():
        _native.map_blocks_from(_MAPPED_BLOCK_BYTES)
    # A background group that reads from its terminal gets TTIN for each attempt, and TTIN makes a node dump its stacks.
    if os.isatty(0):
        null = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        os.dup2(null, 0)
        os.close(null)
    # Objects from before the fork are the supervisor's to clean up: a temporary directory, for instance.
    for finalizer in list(weakref.finalize._registry):  # type: ignore[attr-defined]  # noqa: SLF001
        finalizer.atexit = False
    # A child of the node must not hold the pipe: the supervisor would not see the node's end.
    forks.register(forks.ChildClosedFd(context.report_pipe))
    # Signals since the fork find the new handlers. BLOCKED_SIGNALS wait for `unblock_signals`.
    forks.unblock_in_child(BLOCKED_SIGNALS)
    signal.pthread_sigmask(signal.SIG_SETMASK, BLOCKED_SIGNALS)


def _reset_signals() -> None:
    """Resets signal handlers as in a new process, except for the signals that a node handles.

    BLOCKED_SIGNALS get a handler that does nothing, not the default action. Until the Runner has installed its
    handlers, the mask holds these signals back. After the Runner has removed its handlers, a late TERM, TSTP or TTIN
    must not kill or stop a process that is ending. Ignoring these signals would discard pending ones. HUP has no
    meaning for a node, and is often sent to all processes.
    """
    ours = {*BLOCKED_SIGNALS, signal.SIGHUP}
    forks.Handlers().install(ours, forks.ignore)
    for signum in signal.valid_signals() - ours:
        if signum not in _PYTHON_IGNORED_SIGNALS and signal.getsignal(signum) not in (signal.SIG_DFL, None):
            signal.signal(signum, signal.SIG_DFL)
    # A node is in a background group: with `stty tostop`, writing to the terminal would stop it. The node's
    # children are in the same group, and inherit that TTOU is ignored.
    signal.signal(signal.SIGTTOU, signal.SIG_IGN)


def _run(context: NodeContext, main: NodeMain, log_failure: Callable[..., None]) -> int:
    try:
        main(context)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) and 0 <= end.code <= 2 else int(end.code is not None)
    except GreteError as error:
        log_failure("%s: %s", context.name, error, error=error, traceback=False)
        # The reporter has ended with the body. A pipe that is full, or has no reader, gets nothing.
        with contextlib.suppress(OSError):
            os.write(context.report_pipe, LastError(str(error)).frame())
        return 1
    return 0


def _finish(status: int, log_failure: Callable[..., None]) -> int:
    """Ends the interpreter without finalizing all objects. Returns the exit status.

    Finalizing would write to each page that is shared with the supervisor, and so copy the pages, in all nodes at once.
    """
    try:
        threading._shutdown()  # type: ignore[attr-defined]  # noqa: SLF001
        atexit._run_exitfuncs()  # noqa: SLF001
    except BaseException as error:
        log_failure("the end of a node failed", error=error)
        status = status or 1
    file_buffers.flush_at_exit()
    return status
