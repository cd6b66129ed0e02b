"""A supervisor at a terminal."""

from __future__ import annotations

import os
import termios

from tests.swarm.loop_run import Run


def test_ctrl_c_is_one_orderly_stop() -> None:
    terminal, end = os.openpty()
    try:
        modes = termios.tcgetattr(end)
        modes[3] |= termios.TOSTOP  # who writes from the background is stopped
        termios.tcsetattr(end, termios.TCSANOW, modes)
        session = ("setsid", "--ctty", "--wait")
        with Run("descriptors", "--nodes", "2", before=session, stdin=end, stderr=end) as run:
            run.until(2, event="swarm.node.ready")
            # It could read no line of the terminal from its background: each try would be a SIGTTIN.
            assert [line["fds"]["0"] for line in run.lines(fds=...)] == [os.devnull] * 2
            os.write(terminal, b"\x03")
            assert run.wait() == 0
            assert len(run.lines(event="swarm.stopping")) == 1
            assert run.lines(event="swarm.stop_expedited") == []
            # From the supervisor, and nothing from the terminal.
            assert [line["signal"] for line in run.lines(node=..., signal=...) if "event" not in line] == [
                "SIGTERM"
            ] * 2
    finally:
        os.close(terminal)
        os.close(end)
