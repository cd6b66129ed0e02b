"""Nodes that are killed, and nodes that hold the GIL for good: how soon is that known, how soon are they back?"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator, Mapping
from functools import partial

from benchmarks.common.progress import say
from benchmarks.common.run import ClientFailedError
from benchmarks.consume.topics import JSON, Topic

from .fleet import Fleet, Note, Plan, fleet
from .measurement import Bench, Delays, Measurement

TOPIC = Topic("delays", 1_000_000, "json", JSON, partitions=8)
NODES = 4
GIL_TIMEOUT = 1.0
SETTINGS: Mapping[str, object] = {
    "GRETE_SWARM_RESTART_BACKOFF": "250ms",
    "GRETE_SWARM_READY_AFTER": "1ms",
    # Here they are made to die young.
    "GRETE_SWARM_CRASH_LOOP_AFTER": 1_000_000,
    "GRETE_SWARM_GIL_TIMEOUT": f"{GIL_TIMEOUT:g}s",
    "GRETE_SHUTDOWN_TIMEOUT": "1s",
}
TITLES = {
    "kill": "SIGKILL sent -> the supervisor has logged the death",
    "wedge": "GIL held for good -> noticed, beyond gil_timeout",
    "backoff": "death -> the next fork: distance from the backoff that was announced",
    "running": "fork -> the node's App runs",
    "record": "fork -> its first record",
    "ready": "fork -> the supervisor knows that it is steady",
}


def measure(bench: Bench, found: Measurement, kills: int, wedges: int) -> None:
    """One swarm for all of it."""
    plan = Plan("mortal", TOPIC.name, TOPIC.partitions, "delays", NODES, environment=SETTINGS)
    try:
        with fleet(bench.broker.bootstrap, plan) as running:
            running.until(lambda: len(started(running, "swarm.node.ready")) == NODES, 60, "all nodes are steady")
            # Some live until they are known to be steady, the others only until they work.
            killed = list(kill(running, kills // 8, "swarm.node.ready"))
            killed += kill(running, kills - len(killed), "record")
            wedged = [delay for _ in range(wedges) for delay in wedge(running)]
            seconds = {"kill": killed, "wedge": wedged, **lives(running.notes)}
    except ClientFailedError as error:
        found.failed("delays", error)
        return
    found.delays += [Delays(name, title, tuple(seconds[name])) for name, title in TITLES.items()]
    for row in found.delays:
        say(f"  delays, {row.title}: {1e3 * row.share(0.5):.1f} ms, p99 {1e3 * row.share(0.99):.1f} ms")


def started(running: Fleet, event: str) -> dict[int, int]:
    """{node: pid} of the nodes whose present life has come to this event."""
    pids = {_pid(note) for note in running.named(event)}
    return {node: pid for node, pid in _alive(running.notes).items() if pid in pids}


def _pid(note: Note) -> int:
    """PID that the note is about: the supervisor's notes name a process, the others are about their own."""
    return int(note.get("pid") or note["by"])


def _alive(notes: list[Note]) -> dict[int, int]:
    alive: dict[int, int] = {}
    for note in notes:
        if note["event"] == "swarm.node.started":
            alive[note["node"]] = note["pid"]
        elif note["event"] == "swarm.node.died":
            alive.pop(note["node"], None)
    return alive


def kill(running: Fleet, times: int, event: str) -> Iterator[float]:
    """One after the other, of those that have come to `event`; yields seconds until its death was logged."""
    for _ in range(times):
        running.until(lambda: started(running, event), 30, f"a node has come to {event}", first_wait=0.005)
        pid = next(iter(started(running, event).values()))
        dead = partial(running.named, "swarm.node.died", pid=pid)
        at = time.time()
        os.kill(pid, signal.SIGKILL)
        running.until(dead, 30, f"the death of {pid}", first_wait=0.005)
        yield dead()[0]["at"] - at


def wedge(running: Fleet) -> Iterator[float]:
    """All nodes at once; yields seconds from when each one's time was over until it was asked to stop for that."""
    running.until(lambda: len(started(running, "swarm.node.ready")) == NODES, 60, "all nodes are steady")
    pids = started(running, "swarm.node.ready")
    for node in pids:
        (running.directory / f"wedge-{node}").touch()
    running.until(lambda: not set(pids.values()) & set(_alive(running.notes).values()), 60, "all are replaced")
    for pid in pids.values():
        (begun,) = running.named("wedged", by=pid)
        noticed = running.named("swarm.node.stopping", pid=pid, reason="gil")
        if not noticed:
            raise ClientFailedError(f"process {pid} held the GIL, and was replaced for something else")
        yield noticed[0]["at"] - begun["at"] - GIL_TIMEOUT


def lives(notes: list[Note]) -> dict[str, list[float]]:
    """Delays in the lives of all nodes, by name."""
    began = {note["pid"]: note["at"] for note in notes if note["event"] == "swarm.node.started"}
    stages = {"app.running": "running", "record": "record", "swarm.node.ready": "ready"}
    seconds: dict[str, list[float]] = {name: [] for name in ("backoff", *stages.values())}
    died: dict[int, Note] = {}
    seen: set[tuple[str, int]] = set()
    for note in notes:
        event = note["event"]
        if event == "swarm.node.died":
            died[note["node"]] = note
        elif event == "swarm.node.started" and (last := died.pop(note["node"], None)):
            seconds["backoff"].append(abs(note["at"] - last["at"] - last["restart_in"]))
        elif event in stages and _pid(note) in began and (event, _pid(note)) not in seen:
            seen.add((event, _pid(note)))
            seconds[stages[event]].append(note["at"] - began[_pid(note)])
    return seconds
