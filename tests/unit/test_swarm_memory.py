"""What a process takes, and what the swarm says of it."""

from __future__ import annotations

import errno
import mmap
import os
import signal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grete._swarm.policy.node_state import NodeState, Phase
from grete._swarm.status import memory
from grete._swarm.status.memory import Memory, MemorySampler
from tests.unit.fake_swarm import ready_node

MIB = 1 << 20
ROLLUP = b"""55d0c0a00000-7ffd1c3fe000 ---p 00000000 00:00 0                          [rollup]
Rss:               10240 kB
Pss:                5120 kB
Pss_Dirty:          4096 kB
Shared_Clean:       1024 kB
Shared_Dirty:       6144 kB
Private_Clean:      1024 kB
Private_Dirty:      2048 kB
"""


def test_what_a_fork_shares_counts_for_both() -> None:
    size = 32 * MIB
    private = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    private.write(b"x" * size)
    alone = memory.read_memory(os.getpid())
    child = os.fork()
    if child == 0:
        signal.pause()
    try:
        together = memory.read_memory(os.getpid())
        theirs = memory.read_memory(child)
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        private.close()
    assert alone["missing"] is None
    assert alone["pss"] is not None
    assert together["pss"] is not None
    assert theirs["shared"] is not None
    assert alone["pss"] - together["pss"] > 0.9 * size / 2
    assert theirs["shared"] > 0.9 * size
    assert theirs["private"] is not None
    assert theirs["private"] < size
    assert theirs["rss"] == pytest.approx(theirs["shared"] + theirs["private"], rel=0.01)
    assert memory.read_rss(os.getpid()) == pytest.approx(together["rss"], rel=0.5)


def test_one_that_has_ended_says_so() -> None:
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
    zombie = memory.read_memory(child)
    os.waitpid(child, 0)
    gone = memory.read_memory(child)
    for one in (zombie, gone):
        assert one == {
            "rss": None,
            "pss": None,
            "shared": None,
            "private": None,
            "missing": f"process {child} has ended",
        }


def write(proc: Path, **files: bytes) -> None:
    (proc / "7").mkdir(parents=True)
    (proc / "self").mkdir()
    for name, content in files.items():
        (proc / "7" / name).write_bytes(content)


def test_a_rollup_is_read(tmp_path: Path) -> None:
    write(tmp_path, smaps_rollup=ROLLUP)
    assert memory.read_memory(7, tmp_path) == {
        "rss": 10240 << 10,
        "pss": 5120 << 10,
        "shared": 7168 << 10,
        "private": 3072 << 10,
        "missing": None,
    }


def test_an_old_kernel_gives_the_rss(tmp_path: Path) -> None:
    write(tmp_path, statm=b"1000 256 30 1 0 100 0\n")
    found = memory.read_memory(7, tmp_path)
    assert found["rss"] == 256 * os.sysconf("SC_PAGESIZE")
    assert found["pss"] is None
    assert "4.14" in (found["missing"] or "")


def test_no_permission_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, statm=b"1000 256 30 1 0 100 0\n")
    read = Path.read_bytes

    def refuse(path: Path) -> bytes:
        if path.name == "smaps_rollup":
            raise PermissionError(errno.EACCES, "Permission denied")
        return read(path)

    monkeypatch.setattr(Path, "read_bytes", refuse)
    found = memory.read_memory(7, tmp_path)
    assert found["rss"]
    assert "another user's" in (found["missing"] or "")


def test_without_proc(tmp_path: Path) -> None:
    assert "there is no" in (memory.read_memory(7, tmp_path)["missing"] or "")


@given(st.one_of(st.binary(max_size=200), st.binary(max_size=20).map(lambda junk: ROLLUP[: len(junk) * 9] + junk)))
def test_whatever_is_in_it_is_read_or_refused(content: bytes) -> None:
    found = memory._parse_smaps_rollup(content)
    assert found is None or (found["rss"] is not None and found["pss"] is not None)


class Ruler:
    """Returns the given measurements, and takes the given time."""

    def __init__(self, cost: float = 0.001) -> None:
        self.asked: list[int] = []
        self.cost, self.now = cost, 0.0

    def __call__(self, pid: int) -> Memory:
        self.asked.append(pid)
        self.now += self.cost
        return {"rss": 100 * MIB, "pss": 30 * MIB, "shared": 80 * MIB, "private": 20 * MIB, "missing": None}

    def clock(self) -> float:
        return self.now


def nodes(count: int = 3) -> list[NodeState]:
    made = [ready_node(number) for number in range(count)]
    for one in made:
        one.pid = 100 + one.id
    return made


def test_a_round_measures_one_node_a_tick_and_comes_once_a_minute() -> None:
    ruler = Ruler()
    watch = MemorySampler(ruler, ruler.clock)
    found = {}
    for second in range(200):
        before = len(ruler.asked)
        memories = watch.tick(float(second), nodes())
        assert len(ruler.asked) - before <= 2
        if memories is not None:
            found[second] = memories
    assert list(found) == [62, 124, 186]
    assert found[62] == {
        "pss": 120 * MIB,
        "supervisor": 30 * MIB,
        "nodes": [
            {"node": number, "pid": 100 + number, "rss": 100 * MIB, "pss": 30 * MIB, "private": 20 * MIB}
            for number in range(3)
        ],
    }
    assert memory.describe(found[62]) == (
        "the swarm takes 120 MiB (PSS): supervisor 30 MiB, node 0: 30 MiB, node 1: 30 MiB, node 2: 30 MiB"
    )


def test_dear_rounds_come_seldom() -> None:
    ruler = Ruler(cost=0.05)
    watch = MemorySampler(ruler, ruler.clock)
    rounds = [second for second in range(5000) if watch.tick(float(second), nodes()) is not None]
    assert rounds[0] == 62
    assert rounds[1] == 62 + 2000 + 2, "four measurements of 50 ms are a ten-thousandth of 2,000 s"


def test_a_node_that_is_not_ready_ends_the_round() -> None:
    ruler = Ruler()
    watch = MemorySampler(ruler, ruler.clock)
    watch.tick(0.0, nodes())
    watch.tick(60.0, nodes())
    assert ruler.asked == [100]
    other = nodes()
    other[2].phase = Phase.STARTING
    watch.tick(61.0, other)
    for second in range(62, 122):
        assert watch.tick(float(second), nodes()) is None
    assert ruler.asked == [100]
    watch.tick(122.0, nodes())
    assert ruler.asked == [100, 100]


def test_what_cannot_be_measured_is_no_sum() -> None:
    def nothing(pid: int) -> Memory:
        return {"rss": 100 * MIB, "pss": None, "shared": None, "private": None, "missing": "old"}

    watch = MemorySampler(nothing, every=0.0)
    memories = watch.tick(0.0, nodes(1))
    assert memories is not None
    assert (memories["pss"], memories["supervisor"]) == (None, None)
    assert memory.describe(memories) == "memory of 1 node, shared pages counted in each: 0: 100 MiB"
