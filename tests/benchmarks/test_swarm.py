"""Delays, memory, targets and pages of the swarm benchmark from made-up notes and mappings."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest

from benchmarks.common.process import ThreadUsage
from benchmarks.common.run import ClientFailedError
from benchmarks.common.target_results import TargetResult
from benchmarks.swarm import report
from benchmarks.swarm.apps.counts import Counts, total
from benchmarks.swarm.delays import TITLES, lives
from benchmarks.swarm.fleet import Fleet, Plan
from benchmarks.swarm.idle import spent
from benchmarks.swarm.measurement import Cpu, Delays, Idle, Measurement, Memory
from benchmarks.swarm.smaps import Mapping, parsed
from benchmarks.swarm.targets import check_targets
from tests.benchmarks.test_report import FACTS

MB = 1_000_000
SMAPS = b"""\
55d0c0a00000-55d0c0c00000 rw-p 00000000 00:00 0                          [heap]
Size:               2048 kB
Rss:                2000 kB
Pss:                1200 kB
Shared_Clean:          0 kB
Shared_Dirty:       1600 kB
Private_Clean:       100 kB
Private_Dirty:       300 kB
7f6a7c000000-7f6a7c144000 rw-p 00000000 00:00 0
Rss:                 512 kB
Pss:                 512 kB
Private_Clean:         0 kB
Private_Dirty:       512 kB
VmFlags: rd wr mr mw me ac
7f6a97044000-7f6a97178000 r-xp 00443000 fe:00 18710                      /usr/lib/lib python.so
Rss:                 100 kB
Pss:                  10 kB
Private_Clean:         0 kB
Private_Dirty:         0 kB
"""


def memory(name: str, pss: int) -> Memory:
    return Memory(name, name, 1, 60.0, 1000, pss, ((2.0, pss),), pss, pss, pss, {"malloc's heap": pss}, 0.001)


def idle(name: str, wakeups: float, cpu: float) -> Idle:
    return Idle(name, name, wakeups, cpu, 1, {"grete-net": (2.8, 1.0), "grete-health": (wakeups - 2.8, 1e3 * cpu)})


def complete() -> Measurement:
    found = Measurement()
    found.cpu = [Cpu("threads", "threads", (90.0, 100.0, 110.0)), Cpu("nodes", "nodes", (195.0, 185.0, 60.0))]
    found.memory = [memory("one", 300 * MB), memory("nodes", 370 * MB)]
    found.delays = [Delays(name, title, (0.001,) * 99 + (0.019,)) for name, title in TITLES.items()]
    found.idle = [idle("supervisor", 1.1, 0.1), idle("node", 4.9, 0.2), idle("one", 3.0, 0.1)]
    return found


def missed(found: Measurement) -> list[TargetResult]:
    return [result for result in check_targets(found) if result.missed]


def test_a_run_that_reaches_all_has_no_miss() -> None:
    assert len(check_targets(complete())) == 8
    assert missed(complete()) == []


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda found: found.cpu.pop(), None),
        (lambda found: found.cpu.append(found.cpu.pop(0)), None),
        (lambda found: found.cpu.__setitem__(1, Cpu("nodes", "", (170.0, 179.0, 300.0))), "cpu"),
        (lambda found: found.memory.__setitem__(1, memory("nodes", 421 * MB)), "memory"),
        (lambda found: found.delays.__setitem__(0, Delays("kill", "", (0.001,) * 98 + (0.021,) * 2)), "delays"),
        (lambda found: found.delays.__setitem__(1, Delays("wedge", "", (0.1, 2.1))), "delays"),
        (lambda found: found.delays.__setitem__(2, Delays("backoff", "", (0.051,))), "delays"),
        (lambda found: found.idle.__setitem__(0, idle("supervisor", 2.1, 0.1)), "idle"),
        (lambda found: found.idle.__setitem__(0, idle("supervisor", 1.0, 1.1)), "idle"),
        (lambda found: found.idle.__setitem__(1, idle("node", 5.4, 0.1)), "idle"),
    ],
)
def test_each_target_can_be_missed(change, text) -> None:  # type: ignore[no-untyped-def]
    found = complete()
    change(found)
    assert [result.text.partition(",")[0] for result in missed(found)] == ([text] if text else [])


def test_the_page_and_the_data_have_all_parts() -> None:
    found = complete()
    found.failed("memory, processes", ClientFailedError("gone"))
    page = report.markdown(FACTS, found)
    for title in ("A handler that computes", "Memory", "Delays", "Waiting for records", "Targets", "Failed"):
        assert f"## {title}\n" in page
    assert "1.85" in page  # medians of 185 over 100
    assert "1.23" in page
    again = json.loads(json.dumps(report.data(FACTS, found)))
    assert [target["outcome"] for target in again["targets"]] == ["ok"] * 8


def test_a_part_alone_is_judged_alone() -> None:
    found = Measurement(cpu=complete().cpu)
    assert [result.text.partition(",")[0] for result in check_targets(found)] == ["cpu"]
    assert "Memory" not in report.markdown(FACTS, found)


def test_threads_of_several_processes_count_into_one_sum(tmp_path: Path) -> None:
    counts = Counts(tmp_path)

    def work() -> None:
        for _ in range(1000):
            counts.add()

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (tmp_path / "1.count").write_bytes((7).to_bytes(8, "little") * 64)
    (tmp_path / "2.count").write_bytes(b"")  # just made, and not of its size yet
    assert total(tmp_path) == 3000 + 7 * 64


def test_mappings_are_read_with_what_is_resident_and_what_they_are_for() -> None:
    heap, arena, library = parsed(SMAPS.splitlines())
    assert (heap.size, heap.rss, heap.pss, heap.private) == (2 << 20, 2000 << 10, 1200 << 10, 400 << 10)
    assert (heap.kind, arena.kind, library.kind) == ("malloc's heap", "malloc's arenas of threads", "libraries")
    assert library.name == "/usr/lib/lib python.so"
    stack = Mapping(0x7F0000001000, 8 << 20, "rw-p", "", 0, 0, 0)
    assert stack.kind == "stacks"


def test_lives_are_read_from_notes() -> None:
    notes = [
        {"event": "swarm.node.started", "at": 10.0, "by": 1, "node": 0, "pid": 5},
        {"event": "app.running", "at": 10.2, "by": 5, "pid": None},
        {"event": "record", "at": 10.5, "by": 5, "node": 0},
        {"event": "record", "at": 10.6, "by": 5, "node": 0},
        {"event": "swarm.node.ready", "at": 11.0, "by": 1, "node": 0, "pid": 5},
        {"event": "swarm.node.died", "at": 12.0, "by": 1, "node": 0, "pid": 5, "restart_in": 0.25},
        {"event": "swarm.node.started", "at": 12.26, "by": 1, "node": 0, "pid": 6},
    ]
    found = lives(notes)
    assert {name: [round(value, 6) for value in values] for name, values in found.items()} == {
        "backoff": [0.01],
        "running": [0.2],
        "record": [0.5],
        "ready": [1.0],
    }


def test_notes_are_read_as_they_grow_and_whole_lines_only(tmp_path: Path) -> None:
    fleet = Fleet("", Plan("idle", "topic", 1, "group"), tmp_path, [])
    assert fleet.notes == []
    path = tmp_path / "notes"
    path.write_bytes(b'{"event": "a", "node": 1}\n{"event": "b", ')
    assert fleet.named("a") == [{"event": "a", "node": 1}]
    assert fleet.named("b") == []
    with path.open("ab") as file:
        file.write(b'"node": 2}\n')
    assert fleet.named("b", node=2) == [{"event": "b", "node": 2}]
    assert fleet.named("b", node=3) == []


def test_a_plan_says_what_is_started() -> None:
    assert Plan("cpu", "t", 4, "g", processes=2).command()[1:3] == ["run", "benchmarks.swarm.apps.cpu:app"]
    swarm = Plan("cpu", "t", 4, "g", nodes=3, workers=2)
    assert swarm.members == 3
    assert swarm.command()[1] == "swarm"
    assert swarm.command()[3:5] == ["--nodes", "3"]


def test_an_idle_process_is_known_by_its_threads() -> None:
    before = {1: ThreadUsage("grete", 1.0, 10), 2: ThreadUsage("grete-net", 2.0, 20)}
    after = {1: ThreadUsage("grete", 1.0, 12), 2: ThreadUsage("grete-net", 2.001, 40)}
    assert spent(before, after, 10.0) == [("grete", 0.2, 0.0), ("grete-net", 2.0, pytest.approx(100.0))]
    with pytest.raises(ClientFailedError, match="threads came or went"):
        spent(before, {1: after[1]}, 10.0)
