"""Health in processes that hang, that are stopped, forked or abandoned, and that end."""

import os
import signal
import time
from pathlib import Path

import pytest

from grete._swarm.node.report import Report
from tests.kafka import eventually
from tests.unit.reporting_process import ReportingProcess, wakeups


def test_a_wedged_interpreter_goes_on_reporting_and_says_how_long_it_waits() -> None:
    began: dict[float, Report] = {}

    def goes_on(report: Report) -> bool:
        # A machine that lets the reporter sleep through a beat makes the wait begin anew: that is forgiven.
        if not report.gil_wait:
            return False
        first = began.setdefault(round(report.uptime - report.gil_wait, 3), report)
        return report.gil_wait - first.gil_wait > 1.0

    with ReportingProcess("health = start(); ctypes.PyDLL(None).sleep(3600)") as node:
        long = node.until(goes_on, "a wait for the GIL that goes on from report to report")
        # It counts from a beat, so that it reaches a limit with one and not a beat later.
        asked = (long.uptime - long.gil_wait) / 0.05
        assert asked == pytest.approx(round(asked), abs=1e-3)


def test_a_long_handler_is_not_taken_for_a_wedged_interpreter() -> None:
    code = """
        health = start()
        feed.push([b"x"])
        job = feed.next()
        while True:
            sum(range(1000))
    """
    with ReportingProcess(code) as node:

        def is_long(report: Report) -> bool:
            return report.oldest is not None and report.oldest.seconds > 1.0

        # A handler that computes lets go of the GIL every few milliseconds.
        node.until(lambda report: is_long(report) and report.gil_wait < 0.5, "a long handler beside a free GIL")
        report = node.until(is_long, "a handler that is longer still")
        assert report.overdue[0].handler == "Orders.consume"


def test_a_wedge_that_ends_is_over_in_the_reports() -> None:
    code = """
        health = start()
        while True:
            ctypes.PyDLL(None).usleep(800_000)
            threading.Event().wait(0.5)
    """
    with ReportingProcess(code) as node:
        node.until(lambda report: report.gil_wait > 0.5, "a wait for the GIL")
        node.until(lambda report: report.gil_wait < 0.1, "its end")


def test_without_a_reader_the_process_ends_at_once() -> None:
    # Between two reports, and with the GIL held.
    with ReportingProcess("health = start(3600.0); ctypes.PyDLL(None).sleep(3600)") as node:
        node.next()
        node.close_pipe()
        assert node.ends() == (3, "")


def test_each_thread_sleeps_once_a_report() -> None:
    with ReportingProcess("health = start(0.02); threading.Event().wait()") as node:
        names = ("grete-health", "grete-gil-probe")
        first = node.next()
        eventually(lambda: all(wakeups(name, node.process.pid) for name in names), 30.0, "both threads")
        before = {name: wakeups(name, node.process.pid) for name in names}
        last = node.until(lambda report: report.seq > first.seq + 100, "a hundred reports")
        # A lock that both want may add one now and then.
        slept = {name: wakeups(name, node.process.pid) - count for name, count in before.items()}
        assert all(50 < count < 1.1 * (last.seq - first.seq) + 5 for count in slept.values()), slept


def test_a_stopped_process_makes_up_for_no_report() -> None:
    with ReportingProcess("health = start(0.1); threading.Event().wait()") as node:
        node.next()
        node.process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, node.process.pid, os.WSTOPPED | os.WNOWAIT)
        before = time.monotonic()
        eventually(lambda: time.monotonic() - before > 1.0, 60.0, "a second in which it is stopped")
        node.process.send_signal(signal.SIGCONT)
        seen = len(node.all)
        node.until(lambda report: len(node.all) > seen + 5, "more reports")
        pairs = list(zip(node.all, node.all[1:], strict=False))
        assert all(later.seq == earlier.seq + 1 for earlier, later in pairs)
        slept = [later for earlier, later in pairs if later.uptime - earlier.uptime > 0.9]
        assert len(slept) == 1
        # No thread waited for the GIL in that time, either.
        assert all(report.gil_wait < 0.9 for report in node.all)


def test_a_forked_child_may_have_a_health_of_its_own_and_not_use_its_parents() -> None:
    code = """
        health = start()
        pid = os.fork()
        if pid == 0:
            try:
                health.close()
            except Exception as error:
                print(type(error).__name__, file=sys.stderr)
            reader, writer = os.pipe()
            own = _native.Health(_native.Dispatcher())
            own.report(writer, 0.01)
            os.read(reader, 4)
            del own, health
            sys.exit(7)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), file=sys.stderr)
    """
    with ReportingProcess(code) as node:
        assert node.ends() == (0, "ForkedClientError\n7\n")


def test_the_pipe_of_a_process_that_is_gone_has_ended_although_a_child_lives() -> None:
    code = """
        from grete._process import forks
        health = start()
        for parental in (health, forks.ChildClosedFd(fd)):
            forks.register(parental)
        pid = os.fork()
        if pid == 0:
            os.close(2)
            time.sleep(70)
            os._exit(0)
        print(pid, file=sys.stderr, flush=True)
        os._exit(7)
    """
    with ReportingProcess(code) as node:
        status, child = node.ends()
        try:
            node.to_the_end()
        finally:
            os.kill(int(child), signal.SIGKILL)
        assert status == 7


BUSY = "threading.Thread(target=lambda: [None for _ in iter(int, 1)], daemon=True).start()"


@pytest.mark.parametrize(
    "end",
    [
        "",
        "sys.exit(0)",
        BUSY,
        "health.close()",
        "del health",
        f"{BUSY}; health.close(); health = start(0.001)",
        "atexit.register(time.sleep, 0.05)",
    ],
)
def test_the_interpreter_ends_as_it_would_without_it(end: str) -> None:
    # The shortest interval makes it likely that the canary is just waiting for the GIL.
    with ReportingProcess(f"health = start(0.001)\n{end}") as node:
        node.to_the_end()
        assert node.ends() == (0, "")


def test_a_descriptor_that_was_closed_and_opened_again_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "users.txt"
    code = f"""
        health = start(0.01)
        os.closerange(3, 256)
        while os.open({str(path)!r}, os.O_CREAT | os.O_WRONLY) < 60:
            pass
        while "grete-health" in threads():
            pass
        mine = [fd for fd in range(3, 60) if os.readlink(f"/proc/self/fd/{{fd}}") == {str(path)!r}]
        health.close()
        del health
        if [fd for fd in mine if os.readlink(f"/proc/self/fd/{{fd}}") == {str(path)!r}] == list(range(3, 60)):
            sys.exit(5)
    """
    with ReportingProcess(code) as node:
        assert node.ends() == (5, "")
        assert path.read_bytes() == b""
