"""The life of a node's process, from the fork to its end."""

import atexit
import functools
import logging
import os
import signal
import threading
import weakref
from collections.abc import Callable
from typing import NoReturn

from grete import _core
from grete.errors import GreteError
from grete.instrumentation.monitor import Monitor
from grete.instrumentation.telling import tell
from grete.swarm import files
from grete.swarm.context import HELD, NodeContext
from grete.swarm.inherit import Inherited
from grete.swarm.logs import name_lines

logger = logging.getLogger("grete")

Body = Callable[[NodeContext], object]
"""What a node does. Its return is status 0; an exception is 1, or what a SystemExit says, if that is 0, 1 or 2."""

# Python ignores these itself, to get an OSError instead.
_PYTHONS_OWN = frozenset({signal.SIGPIPE, signal.SIGXFSZ})
_ORPHANED = 3


def live(context: NodeContext, body: Body, inherited: Inherited, monitor: Monitor | None = None) -> NoReturn:
    """Everything that a forked child does. All signals are blocked when this is called, since before the fork.

    It ends the process, whatever happens: the frames below belong to the supervisor.
    """
    status = 1
    failed = functools.partial(tell, monitor, logger, logging.ERROR, "swarm.node.failed", fields={"node": context.id})
    try:
        _become_a_node(context, inherited)
        name_lines(context.name)
        status = _run(context, body, failed)
    except BaseException as error:
        failed("%s has ended", context.name, error=error)
    finally:
        try:
            status = _finish(status, failed)
        finally:
            os._exit(status)


def _become_a_node(context: NodeContext, inherited: Inherited) -> None:
    # The wake-up fd first: a signal's byte in the pipe that we share would be the supervisor's to read.
    signal.set_wakeup_fd(-1)
    _reset_signals()
    inherited.close()
    # A terminal's Ctrl-C goes to its foreground group: to the supervisor, which stops its nodes once, and in order.
    os.setpgid(0, 0)
    if _core.die_with_parent() and os.getppid() != context.supervisor:
        # Gone between the fork and the call before: the kernel would not tell us any more.
        os._exit(_ORPHANED)
    # A background group that reads from its terminal gets TTIN for each try, and here that means: dump the stacks.
    if os.isatty(0):
        null = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        os.dup2(null, 0)
        os.close(null)
    # What was made before the fork is the supervisor's to clean up: a temporary directory, for instance.
    for finalizer in list(weakref.finalize._registry):  # type: ignore[attr-defined]  # noqa: SLF001
        finalizer.atexit = False
    # All that came since the fork finds the new dispositions. HELD waits for `release_signals`.
    signal.pthread_sigmask(signal.SIG_SETMASK, HELD)


def _reset_signals() -> None:
    """As in a new process, but for what a node waits to handle.

    HELD gets a handler that does nothing, and not the default: until the Runner has set up its own, the mask keeps
    them; after it has taken its own down, a late TERM, TSTP or TTIN does not kill or stop a process that is ending.
    Ignoring them would throw away what is pending. HUP means nothing to a node, and often is sent to all processes.
    """
    for signum in signal.valid_signals():
        if signum in HELD or signum == signal.SIGHUP:
            signal.signal(signum, _ignore)
        elif signum not in _PYTHONS_OWN and signal.getsignal(signum) not in (signal.SIG_DFL, None):
            signal.signal(signum, signal.SIG_DFL)
    # Of a background group, too: with `stty tostop`, writing to the terminal would stop it.
    signal.signal(signal.SIGTTOU, signal.SIG_IGN)


def _ignore(_signum: int, _frame: object) -> None:
    """See `_reset_signals`."""


def _run(context: NodeContext, body: Body, failed: Callable[..., None]) -> int:
    try:
        body(context)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) and 0 <= end.code <= 2 else int(end.code is not None)
    except GreteError as error:
        failed("%s: %s", context.name, error, error=error, traceback=False)
        return 1
    return 0


def _finish(status: int, failed: Callable[..., None]) -> int:
    """The interpreter's end, but for taking down all objects.

    That would write to each page that is shared with the supervisor, and so copy it, in all nodes at once.
    """
    try:
        threading._shutdown()  # type: ignore[attr-defined]  # noqa: SLF001
        atexit._run_exitfuncs()  # noqa: SLF001
    except BaseException as error:
        failed("the end of a node failed", error=error)
        status = status or 1
    files.flush_at_the_end()
    return status
