"""Samples a running App from a thread of its own, a few times, at equal distances."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import grete


@dataclass(frozen=True)
class Plan:
    """Lengths in seconds."""

    warm_up: float
    windows: int
    seconds: float

    @classmethod
    def read(cls, settings: dict[str, str]) -> Plan:
        """Takes its words out of a client's settings."""
        return cls(float(settings.pop("warm_up")), int(settings.pop("windows")), float(settings.pop("seconds")))


class Watcher:
    """Prints what `look` found at the edges of the windows, then stops the App; starts with the first job."""

    def __init__(self, app: grete.App, plan: Plan, look: Callable[[], dict[str, Any]]) -> None:
        self.app, self.plan, self.look = app, plan, look
        self.begun = threading.Event()
        threading.Thread(target=self._watch, name="bench-watcher", daemon=True).start()

    def _watch(self) -> None:
        self.begun.wait()
        # What is measured is the length of time itself: these are no waits for a condition.
        time.sleep(self.plan.warm_up)
        samples = [self._sample()]
        for _ in range(self.plan.windows):
            time.sleep(self.plan.seconds)
            samples.append(self._sample())
        print(json.dumps({"samples": samples, "version": f"grete {grete.__version__}"}), flush=True)
        self.app.stop()

    def _sample(self) -> dict[str, Any]:
        return {"at": time.perf_counter(), "cpu": time.process_time(), **self.look()}
