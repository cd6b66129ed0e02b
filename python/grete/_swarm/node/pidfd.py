"""Handle on one child process whose signals cannot reach another process that gets the same pid later."""

import errno
import os
import signal
from typing import Any

_FALLBACK_VARIABLE = "GRETE_SWARM_PIDFD"
# Exit status of a process that was reaped elsewhere, as in multiprocessing.
UNKNOWN_EXIT_STATUS = 255


def pidfd_unavailable() -> bool:
    """Returns whether pidfds are switched off by GRETE_SWARM_PIDFD=no, or unavailable.

    They are unavailable before Linux 5.4, on other systems, and in sandboxes that refuse the system call (gVisor, old
    seccomp lists).
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
        signal.pidfd_send_signal(fd, 0)  # 0: only checks that it may be sent
        os.waitid(os.P_PIDFD, fd, os.WEXITED | os.WNOHANG)
    except ChildProcessError:
        pass  # a process is not its own child; the error shows that the call exists
    except OSError:
        return True  # waitid knows P_PIDFD since 5.4 only, pidfd_open came with 5.3
    finally:
        os.close(fd)
    return False


class Pidfd:
    """A child of this process, from its fork until `reap` has reaped it.

    `fd` becomes readable when the process ends. The fallback has no `fd`, and callers wait for SIGCHLD. There, a signal
    is sent only while the child is not reaped, because until then the pid is still that of the child.
    """

    __slots__ = ("_exit_status", "fd", "pid")

    def __init__(self, pid: int, *, no_pidfd: bool | None = None) -> None:
        """`no_pidfd`: True forces the fallback, None calls `pidfd_unavailable()`. OSError without descriptors left."""
        self.pid = pid
        self.fd: int | None = None
        self._exit_status: int | None = None
        if not (pidfd_unavailable() if no_pidfd is None else no_pidfd):
            self.fd = os.pidfd_open(pid)  # close-on-exec

    @property
    def alive(self) -> bool:
        """Whether the process has not ended yet, reaped or not."""
        if self._exit_status is not None:
            return False
        try:
            return self._wait(os.WNOWAIT) is None
        except ChildProcessError:
            return False

    def signal(self, signum: int) -> bool:
        """Sends a signal. Returns False without sending if the process was reaped, here or elsewhere."""
        if self._exit_status is not None:
            return False
        try:
            if self.fd is not None:
                signal.pidfd_send_signal(self.fd, signum)
                return True
            # As long as a child is not reaped, no other process gets its pid. waitid knows only children of this
            # process: it raises if the child was reaped elsewhere, whatever process has the pid now. The child cannot
            # be reaped between the two calls, because this process has one thread.
            self._wait(os.WNOWAIT)
            os.kill(self.pid, signum)
        except (ChildProcessError, ProcessLookupError):
            return False
        return True

    def reap(self) -> int | None:
        """Reaps the process if it has ended, and closes the descriptor.

        Returns None as long as it runs; then its exit code, or minus the number of the signal that killed it.
        """
        if self._exit_status is None:
            try:
                ended = self._wait(0)
            except ChildProcessError:
                ended = UNKNOWN_EXIT_STATUS
            if ended is None:
                return None
            self._exit_status = ended
            self.close()
        return self._exit_status

    def close(self) -> None:
        """Closes the descriptor. The process is not touched, and this handle can no longer signal or reap it."""
        fd, self.fd = self.fd, None
        if self._exit_status is None:
            self._exit_status = UNKNOWN_EXIT_STATUS
        if fd is not None:
            os.close(fd)

    def _wait(self, options: int) -> int | None:
        which = (os.P_PID, self.pid) if self.fd is None else (os.P_PIDFD, self.fd)
        result: Any = os.waitid(*which, os.WEXITED | os.WNOHANG | options)
        if result is None:
            return None
        status = int(result.si_status)
        return status if result.si_code == os.CLD_EXITED else -status
