"""Dead letters: the newest of a topic, and replays that run beside the pages."""

import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from grete._dlq.checkpoint import (
    Checkpoint,
    ReplayHistory,
    check_no_members,
    check_within_log,
    default_group,
    group_for,
    load_history,
)
from grete._dlq.dead_letter import DeadLetter, parse_dead_letter
from grete._dlq.filter import DeadLetterFilter
from grete._dlq.rate_limiter import RateLimiter
from grete._dlq.reader import SETTINGS, DeadLetterReader, OffsetRange, offset_ranges
from grete._dlq.replay import Replay, ReplayPlan, plan_replay
from grete._web.kafka import explorer
from grete._web.kafka.gateway import TIMEOUT, Gateway
from grete.client import Producer
from grete.errors import GreteError

_KEPT_REPLAYS = 50


@dataclass(frozen=True, slots=True)
class Letters:
    """The newest dead letters of a topic, newest first. `replayed`: places of those that were replayed."""

    letters: Sequence[DeadLetter]
    total: int
    replayed: frozenset[tuple[int, int]]
    classes: Counter[str]


def newest(gateway: Gateway, topic: str) -> Letters:
    """Returns the newest dead letters of a topic."""
    page = explorer.page(gateway, topic, None, None, None)
    found = [letter for message in page.records if (letter := parse_dead_letter(message)) is not None]
    past = load_history(gateway.admin, topic, default_group(topic), None, TIMEOUT)
    replayed = frozenset((letter.message.partition, letter.message.offset) for letter in found if past.covers(letter))
    total = sum(end - first for first, end in page.ranges.values())
    return Letters(found, total, replayed, Counter(letter.error_class for letter in found))


def is_replayed(gateway: Gateway, letter: DeadLetter) -> bool:
    """Returns whether a dead letter was replayed."""
    topic = letter.message.topic
    return load_history(gateway.admin, topic, default_group(topic), None, TIMEOUT).covers(letter)


@dataclass(slots=True)
class ReplayRun:
    """A replay that was asked for. `done` None: it runs."""

    number: int
    topic: str
    selection: DeadLetterFilter
    user: str
    begun: float
    planned: int = 0
    replayed: Counter[str] = field(default_factory=Counter)
    done: bool = False
    error: str = ""
    _stop: threading.Event = field(default_factory=threading.Event)

    @property
    def requested(self) -> bool:
        """Whether the replay should stop."""
        return self._stop.is_set()

    def sleep(self, seconds: float) -> None:
        """Sleeps, and returns early when the replay should stop."""
        self._stop.wait(seconds)

    def stop(self) -> None:
        """Asks for a stop."""
        self._stop.set()

    @property
    def selected(self) -> str:
        """The selection, for people."""
        return self.selection.to_query() or "all"


class Replays:
    """Replays of this web process, one at a time for each topic."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []
        self._closed = False
        self.runs: list[ReplayRun] = []

    def plan(self, topic: str, selection: DeadLetterFilter) -> ReplayPlan:
        """Counts what a replay would send, and sends nothing."""
        with self._gateway.consumer(**SETTINGS) as consumer:
            letters = self._letters(consumer, topic, selection)
            return plan_replay(letters, selection, self._history(topic))

    def start(self, topic: str, selection: DeadLetterFilter, rate: int | None, user: str) -> ReplayRun:
        """Begins a replay in a thread of its own. Raises GreteError while another one of the topic runs."""
        with self._lock:
            if self._closed:
                raise GreteError("grete web is stopping")
            if any(run.topic == topic and not run.done for run in self.runs):
                raise GreteError(f"a replay of {topic} runs already: wait for its end")
            number = self.runs[-1].number + 1 if self.runs else 1
            run = ReplayRun(number, topic, selection, user, time.time())
            self.runs = [*self.runs, run][-_KEPT_REPLAYS:]
            thread = threading.Thread(target=self._run, args=(run, rate), name=f"grete-web-replay-{number}")
            self._threads = [one for one in self._threads if one.is_alive()] + [thread]
            thread.start()
        return run

    def close(self) -> None:
        """Stops all replays; what they have sent is remembered."""
        with self._lock:
            self._closed = True
        for run in self.runs:
            run.stop()
        for thread in self._threads:
            thread.join()

    def wait(self, run: ReplayRun, seconds: float) -> None:
        """Waits for the end of a replay, for so many seconds at most."""
        name = f"grete-web-replay-{run.number}"
        for thread in self._threads:
            if thread.name == name:
                thread.join(seconds)

    def _run(self, run: ReplayRun, rate: int | None) -> None:
        try:
            self._replay(run, rate)
        except Exception as error:
            run.error = f"{error}" if isinstance(error, GreteError) else f"{type(error).__name__}: {error}"
        finally:
            run.done = True

    def _replay(self, run: ReplayRun, rate: int | None) -> None:
        topic, admin = run.topic, self._gateway.admin
        name = group_for(default_group(topic), run.selection, None)
        past = self._history(topic)
        everything = offset_ranges(admin, topic, run.selection.partition, TIMEOUT)
        if name in past.groups:
            check_no_members(admin, name, TIMEOUT)
        before = past.before(name)
        check_within_log(topic, name, before, [(span.partition, span.end) for span in everything])
        with (
            self._gateway.consumer(**SETTINGS, **{"group.id": name}) as consumer,
            Producer(self._gateway.settings) as producer,
        ):
            letters = DeadLetterReader(consumer, topic, everything, TIMEOUT)
            run.planned = plan_replay(letters, run.selection, past).count
            replay = Replay(
                topic,
                consumer,
                producer,
                Checkpoint(consumer, topic, name, before),
                selection=run.selection,
                history=past,
                to=None,
                rate_limiter=None if rate is None else RateLimiter(rate, 1.0),
                idle_timeout=TIMEOUT,
                on_progress=lambda now: run.replayed.update(now.replayed - run.replayed),
            )
            where = [
                OffsetRange(span.partition, max(span.begin, before.get(span.partition, 0)), span.end)
                for span in everything
            ]
            try:
                replay.run(where, run)
            finally:
                run.replayed = replay.replayed

    def _history(self, topic: str) -> ReplayHistory:
        return load_history(self._gateway.admin, topic, default_group(topic), None, TIMEOUT)

    def _letters(self, consumer: object, topic: str, selection: DeadLetterFilter) -> DeadLetterReader:
        spans = offset_ranges(self._gateway.admin, topic, selection.partition, TIMEOUT)
        if selection.offset is not None:
            spans = [OffsetRange(span.partition, selection.offset, selection.offset + 1) for span in spans]
        return DeadLetterReader(consumer, topic, spans, TIMEOUT)  # type: ignore[arg-type]
