"""A handle on one child process: no signal through it can reach another process that got the same pid later."""

import errno
import os
import signal
from typing import Any

_FALLBACK_VARIABLE = "GRETE_SWARM_PIDFD"
# What a process is said to have ended with if somebody else has reaped it, as multiprocessing says it.
LOST = 255


def fallback() -> bool:
    """Whether this process does without pidfds: told so by GRETE_SWARM_PIDFD=no, or there are none.

    None: before Linux 5.4, on other systems, and where a sandbox refuses the system call (gVisor, old seccomp lists).
    """
    if os.environ.get(_FALLBACK_VARIABLE, "").strip().lower() in ("no", "0", "false", "off"):
        return True
    if not (hasattr(os, "pidfd_open") and hasattr(os, "P_PIDFD") and hasattr(signal, "pidfd_send_signal")):
        return True
    try:
        fd = os.pidfd_open(os.getpid())
    except OSError as error:
        return error.errno in (errno.ENOSYS, errno.EPERM, errno.EINVAL)
    try:
        signal.pidfd_send_signal(fd, 0)  # 0: may it be sent?
        os.waitid(os.P_PIDFD, fd, os.WEXITED | os.WNOHANG)
    except ChildProcessError:
        pass  # nobody is one's own child: the call is there
    except OSError:
        return True  # waitid knows P_PIDFD since 5.4 only, pidfd_open came with 5.3
    finally:
        os.close(fd)
    return False


class Pidfd:
    """A child of this process, from its fork until `cleanup` has reaped it.

    `fd` becomes readable when the process ends. In the fallback there is none: whoever waits does so by SIGCHLD. There,
    a signal goes out only while the pid is known to be ours, because it is not reaped.
    """

    __slots__ = ("_ended", "fd", "pid")

    def __init__(self, pid: int, *, plain: bool | None = None) -> None:
        """`plain`: True forces the fallback, None asks `fallback()`. OSError if there are no descriptors left."""
        self.pid = pid
        self.fd: int | None = None
        self._ended: int | None = None
        if not (fallback() if plain is None else plain):
            self.fd = os.pidfd_open(pid)  # close-on-exec

    @property
    def alive(self) -> bool:
        """False once it has ended, reaped or not."""
        if self._ended is not None:
            return False
        try:
            return self._wait(os.WNOWAIT) is None
        except ChildProcessError:
            return False

    def signal(self, signum: int) -> bool:
        """Sends it. False if the process has been reaped, by us or by somebody else: then it reaches nobody."""
        if self._ended is not None:
            return False
        try:
            if self.fd is not None:
                signal.pidfd_send_signal(self.fd, signum)
                return True
            # As long as a child is not reaped, nobody else gets its pid. waitid knows our children only: if somebody
            # has reaped this one behind our back, it raises, whoever has the pid now. Between the two calls nobody can
            # reap it, since this process has one thread.
            self._wait(os.WNOWAIT)
            os.kill(self.pid, signum)
        except (ChildProcessError, ProcessLookupError):
            return False
        return True

    def cleanup(self) -> int | None:
        """Reaps the process if it has ended, and closes the descriptor.

        Returns None as long as it runs; then its exit code, or minus the number of the signal that killed it.
        """
        if self._ended is None:
            try:
                ended = self._wait(0)
            except ChildProcessError:
                ended = LOST
            if ended is None:
                return None
            self._ended = ended
            self.close()
        return self._ended

    def close(self) -> None:
        """Gives the descriptor back. The process is not touched, and can no longer be signalled or reaped by this."""
        fd, self.fd = self.fd, None
        if self._ended is None:
            self._ended = LOST
        if fd is not None:
            os.close(fd)

    def _wait(self, options: int) -> int | None:
        which = (os.P_PID, self.pid) if self.fd is None else (os.P_PIDFD, self.fd)
        result: Any = os.waitid(*which, os.WEXITED | os.WNOHANG | options)
        if result is None:
            return None
        status = int(result.si_status)
        return status if result.si_code == os.CLD_EXITED else -status
