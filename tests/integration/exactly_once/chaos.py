"""Processes of an exactly-once App that are killed, stopped and joined by others; and the load that they transform."""

from __future__ import annotations

import json
import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.integration.app_process import AppRun
from tests.integration.transform_app import SOURCE_SIZE, key_of
from tests.kafka import KafkaCluster, fill

TARGET = "tests.integration.apps.transformer:app"
PROCESSES = 4
PARTITIONS = 6
SESSION_MS = 3000
# (handler of apps.transformer, concurrency)
VARIANTS = (
    ("each", "partition"),
    ("fails", "partition"),
    ("many", "key"),
    ("async", "partition"),
    ("mark-each", "key"),
    ("middle", "partition"),
    ("fails", "key"),
    ("async-mark", "partition"),
    ("async", "key"),
    ("each", "unordered"),
    ("middle", "key"),
    ("async-mark", "key"),
    ("fails", "unordered"),
)
HARMS = ("kill",) * 7 + ("hang", "leave", "enter")


@dataclass(frozen=True)
class ChaosPlan:
    """One run, chosen by a seed."""

    seed: int
    handler: str
    concurrency: str
    max_messages: int
    interval: str
    static: bool

    @classmethod
    def of(cls, seed: int, concurrency: str = "") -> ChaosPlan:
        """Seeds in a row have all variants in turn, or those of `concurrency`. Every second plan has static members."""
        source = random.Random(seed)
        variants = [one for one in VARIANTS if concurrency in ("", one[1])]
        handler, concurrency = variants[seed // 2 % len(variants)]
        max_messages, interval = source.choice((1, 20, 500)), source.choice(("20ms", "100ms", "500ms"))
        return cls(seed, handler, concurrency, max_messages, interval, bool(seed % 2))

    def spec(self, kafka: KafkaCluster, group: str, source: str, target: str, slot: int) -> dict[str, Any]:
        """What `apps.transformer` reads in the process of this slot."""
        settings: dict[str, object] = {
            "bootstrap.servers": kafka.bootstrap_servers,
            "session.timeout.ms": SESSION_MS,
            "heartbeat.interval.ms": 500,
            "request.timeout.ms": 3000,
            "reconnect.backoff.max.ms": 500,
        }
        if self.static:
            settings["group.instance.id"] = f"slot-{slot}"
        route = {"concurrency": self.concurrency, "max_messages": self.max_messages}
        app = {"exactly_once": True, "transaction_interval": self.interval}
        names = {"group": group, "source": source, "target": target, "handler": self.handler}
        return {**names, "route": route, "kafka": settings, "app": app}


class Thread(threading.Thread):
    """A thread whose error is raised by `check` and `finish`. Its child processes end with it."""

    def __init__(self, name: str) -> None:
        super().__init__(name=name, daemon=True)
        self.stopping = threading.Event()
        self._error: BaseException | None = None

    def work(self) -> None:
        """What the thread does until `stopping`."""
        raise NotImplementedError

    def run(self) -> None:
        try:
            self.work()
        except BaseException as error:
            self._error = error

    def check(self) -> None:
        if self._error is not None:
            raise self._error

    def finish(self) -> None:
        self.stopping.set()
        self.join(300.0)
        assert not self.is_alive(), f"{self.name} does not end"
        self.check()


class Load(Thread):
    """Writes `count` records in `seconds`, in slices; what slow brokers have delayed comes later."""

    def __init__(self, kafka: KafkaCluster, topic: str, count: int, seconds: float) -> None:
        super().__init__("load")
        self.written = 0
        self._kafka = kafka
        self._topic = topic
        self._count = count
        self._slices = max(1, int(seconds))

    def work(self) -> None:
        started = time.monotonic()
        for number in range(1, self._slices + 1):
            self.stopping.wait(max(0.0, started + number - 1 - time.monotonic()))
            size = self._count * number // self._slices - self.written
            servers, first = self._kafka.bootstrap_servers, self.written
            key = key_of(PARTITIONS)
            fill(servers, self._topic, size, partitions=PARTITIONS, value_size=SOURCE_SIZE, key=key, first_index=first)
            self.written += size


class Processes(Thread):
    """Runs four Apps and harms one of them every `pause` seconds. All are killed at the end.

    `spec_of`: the App of a slot. Slots are numbered; a fifth joins and leaves.
    """

    def __init__(self, spec_of: Callable[[int], dict[str, Any]], directory: Path, seed: int, pause: float) -> None:
        super().__init__("processes")
        self.harms: Counter[str] = Counter()
        self._spec_of = spec_of
        self._directory = directory
        self._random = random.Random(seed)
        self._pause = pause
        self._apps: dict[int, AppRun] = {}
        # A process that is stopped goes on at this time.
        self._hung: dict[int, float] = {}
        # Processes that have got a SIGTERM.
        self._leaving: set[int] = set()

    def work(self) -> None:
        harms = {"kill": self.kill, "hang": self.hang, "leave": self.leave, "enter": self.enter}
        with ExitStack() as stack:
            self._stack = stack
            for slot in range(PROCESSES):
                self._start(slot)
            while not self.stopping.wait(self._pause):
                self._look()
                harms[self._random.choice(HARMS)]()

    def kill(self) -> None:
        """SIGKILL, and another start at once."""
        slot = self._any()
        self.harms["kill"] += 1
        self._apps[slot].process.kill()
        self._apps[slot].wait(10.0)
        self._start(slot)

    def hang(self) -> None:
        """SIGSTOP for longer than the session."""
        if not self._hung:
            slot = self._any()
            self.harms["hang"] += 1
            os.kill(self._apps[slot].pid, signal.SIGSTOP)
            self._hung[slot] = time.monotonic() + SESSION_MS / 1e3 + self._random.uniform(0.5, 3.0)

    def leave(self) -> None:
        """SIGTERM, and another start when the process has ended."""
        slot = self._any()
        self.harms["leave"] += 1
        os.kill(self._apps[slot].pid, signal.SIGTERM)
        self._leaving.add(slot)

    def enter(self) -> None:
        """A fifth process joins, or leaves."""
        if PROCESSES not in self._apps:
            self.harms["enter"] += 1
            self._start(PROCESSES)
        elif PROCESSES not in self._leaving:
            os.kill(self._apps[PROCESSES].pid, signal.SIGTERM)
            self._leaving.add(PROCESSES)

    def _any(self) -> int:
        """A slot whose process is neither stopped nor leaving."""
        return self._random.choice([slot for slot in range(PROCESSES) if slot not in {*self._hung, *self._leaving}])

    def _look(self) -> None:
        """Continues what was stopped for long enough, and starts what has left. No process ends by itself."""
        for slot, until in list(self._hung.items()):
            if time.monotonic() >= until:
                os.kill(self._apps[slot].pid, signal.SIGCONT)
                del self._hung[slot]
        for slot, app in list(self._apps.items()):
            if app.process.poll() is None:
                continue
            if slot not in self._leaving:
                raise AssertionError(f"process {app.pid} has ended with {app.process.returncode}: {app.output[-8000:]}")
            self._leaving.remove(slot)
            del self._apps[slot]
            if slot < PROCESSES:
                self._start(slot)

    def _start(self, slot: int) -> None:
        run = AppRun(TARGET, self._directory / f"slot-{slot}", {"TRANSFORMER": json.dumps(self._spec_of(slot))})
        self._apps[slot] = self._stack.enter_context(run)
