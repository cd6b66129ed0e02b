"""What is done where Linux' own interfaces are missing: other systems, and Pythons built for an old C library."""

import os
import select
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import grete
from grete._process import stacks
from grete._processing import transactional_id
from grete._swarm.preflight.platform import check_platform
from grete._swarm.supervisor import Supervisor


def test_linux_has_what_a_swarm_needs() -> None:
    check_platform()


def test_a_swarm_says_what_the_system_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(select, "epoll")
    monkeypatch.setattr(sys, "platform", "darwin")
    app = grete.App("shop", kafka={"bootstrap.servers": "127.0.0.1:1"})
    app.consumer("orders")(lambda messages: None)
    with pytest.raises(grete.NotSupportedError, match=r"a swarm needs Linux: darwin has no epoll, no abstract unix"):
        Supervisor(app, app.settings()).run()


@pytest.mark.parametrize("claim", [transactional_id._bind_socket, transactional_id._lock_file])
def test_one_process_at_a_time_has_a_transactional_id(
    claim: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(transactional_id, "_claim", claim)
    prefix = f"test-{os.getpid()}"
    first = transactional_id.TransactionalId(prefix)
    second = transactional_id.TransactionalId(prefix)
    assert [first.text, second.text] == [f"{prefix}-0", f"{prefix}-1"]
    first.release()
    third = transactional_id.TransactionalId(prefix)
    assert third.text == f"{prefix}-0"
    second.release()
    third.release()


def test_a_locked_file_is_free_when_its_process_has_been_killed(tmp_path: Path) -> None:
    program = textwrap.dedent(
        """
        import os, signal, tempfile
        from grete._processing import transactional_id
        held = transactional_id._lock_file("a-0")
        assert held is not None
        assert transactional_id._lock_file("a-0") is None
        os.kill(os.getpid(), signal.SIGKILL)
        """
    )
    for _ in range(2):
        environment = os.environ | {"TMPDIR": str(tmp_path)}
        done = subprocess.run([sys.executable, "-c", program], env=environment, check=False, timeout=60)
        assert done.returncode == -9


def test_stacks_are_dumped_without_memfd_create(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delattr(os, "memfd_create", raising=False)
    monkeypatch.setattr(stacks, "line_prefix", lambda: "node 1 ")
    stacks.dump_stacks()
    lines = capfd.readouterr().err.splitlines()
    assert lines
    assert all(line.startswith("node 1 ") for line in lines)
    assert any("test_stacks_are_dumped_without_memfd_create" in line for line in lines)
