"""PID namespaces: a PID 1 of our own, and PIDs that no other process takes."""

from __future__ import annotations

import subprocess
import sys

NAMESPACE = ("unshare", "--pid", "--fork", "--kill-child")
"""What a command is started through."""


def refused() -> str | None:
    """Why there are no PID namespaces here, or no way to choose a pid in them; None: there are."""
    script = "import pathlib; pathlib.Path('/proc/sys/kernel/ns_last_pid').write_text('100')"
    try:
        done = subprocess.run([*NAMESPACE, sys.executable, "-c", script], capture_output=True, text=True, check=False)
    except OSError as error:
        return str(error)
    return done.stderr.strip() if done.returncode else None
