"""Who listens to what."""

import inspect
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import ParamSpec, TypeAlias, TypeVar, overload

from grete._core import Event, Occurred
from grete._suggest import did_you_mean
from grete.errors import UnknownEventError
from grete.instrumentation.clock import monotonic
from grete.instrumentation.events import EVENTS
from grete.instrumentation.faults import Faults

Listener: TypeAlias = Callable[[Occurred], object]
L = TypeVar("L", bound=Listener)
P = ParamSpec("P")
R = TypeVar("R")

_OF_JOBS = ("consumer.consume", "consumer.consumed", "message.process", "message.processed")
_NAME = re.compile(r"[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)+")


class Monitor:
    """All events of one App (`app.monitor`), and who listens to them. From any thread.

    ```
    @app.monitor.subscribe("consumer.dead_letter")
    def alarm(occurred: grete.instrumentation.Occurred) -> None:
        pager.call(f"{occurred['topic']}: {occurred['handler']}")
    ```

    Listeners are called in the thread where it happens, which waits for them: handlers, the event loop, and in a swarm
    the supervisor. One that raises is logged and emitted as `error.occurred`, and nothing else comes of it.

    docs/events.md lists all events with their fields. Nodes of a swarm are forked with the listeners of that moment.
    """

    def __init__(self) -> None:
        errors = Event("error.occurred", Faults(None))
        self._faults = Faults(errors)
        emitted = (name for name, described in EVENTS.items() if described.emitted)
        self._events = {name: Event(name, self._faults) for name in emitted} | {errors.name: errors}

    def event(self, name: str) -> Event:
        """The event of that name, to keep: `if event: event.emit(...)` costs next to nothing while nobody listens.

        UnknownEventError says which name is meant.
        """
        try:
            return self._events[name]
        except (KeyError, TypeError):
            if isinstance(name, str) and name in EVENTS:
                raise UnknownEventError(f"{name!r} is logged only: there is nothing to listen to") from None
            raise UnknownEventError(f"there is no event {name!r}{did_you_mean(str(name), self._events)}") from None

    def __iter__(self) -> Iterator[str]:
        """The names of all events."""
        return iter(tuple(self._events))

    @property
    def of_jobs(self) -> Sequence[Event]:
        """The events of jobs that hand out records: what comes with each, or with each of their records."""
        return [self._events[name] for name in _OF_JOBS]

    def declare(self, name: str) -> Event:
        """Adds an event of your own, and returns it. Like `shop.charged`: parts of lower case letters, digits and
        underscores, with dots between them. ValueError for others, and for a name that there is.
        """
        if not _NAME.fullmatch(name):
            raise ValueError(f'an event is called like "shop.charged", not {name!r}')
        if name in self._events or _method(name) in self._methods():
            raise ValueError(f"there is an event {name!r}, or one whose listeners' methods are called the same")
        event = self._events[name] = Event(name, self._faults)
        return event

    @overload
    def subscribe(self, listener: str) -> Callable[[L], L]: ...  # type: ignore[overload-overlap]
    @overload
    def subscribe(self, listener: str, function: Listener) -> None: ...
    @overload
    def subscribe(self, listener: object) -> None: ...

    def subscribe(self, listener: object, function: Listener | None = None) -> Callable[[L], L] | None:
        """`subscribe("consumer.consumed", function)` calls the function with an `Occurred` each time; without function
        it is a decorator. `subscribe(object)` subscribes all its methods that are called like `on_consumer_consumed`.

        UnknownEventError for a name that is none, of an event or a method: then nothing is subscribed.
        """
        if isinstance(listener, str):
            event = self.event(listener)
            if function is not None:
                event.subscribe(_checked(function))
                return None

            def decorate(decorated: L) -> L:
                event.subscribe(_checked(decorated))
                return decorated

            return decorate
        for event, method in self._of(listener):
            event.subscribe(method)
        return None

    def unsubscribe(self, listener: object, function: Listener | None = None) -> None:
        """Ends what `subscribe` with the same arguments has begun; nothing where there is nothing to end. A dispatch
        that is under way still calls all whom it began with.
        """
        if isinstance(listener, str):
            self.event(listener).unsubscribe(function)
        else:
            for event, method in self._of(listener):
                event.unsubscribe(method)

    def instrument(self, name: str, payload: Mapping[str, object] | None = None) -> None:
        """Emits an event. UnknownEventError for a name that is none."""
        event = self.event(name)
        if event:
            event.emit(**payload or {})

    def measure(self, event: Event | str, fn: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Calls `fn(*args, **kwargs)` and returns what it returns, or raises what it raises.

        Whoever listens hears how long it took (`time`, seconds) and what it raised (`error`, or None). With no listener
        no clock is read. An event that is kept costs less than its name.
        """
        if not event:
            return fn(*args, **kwargs)
        if isinstance(event, str) and not (event := self.event(event)):
            return fn(*args, **kwargs)
        begin = monotonic()
        try:
            result = fn(*args, **kwargs)
        except BaseException as error:
            event.emit(time=monotonic() - begin, error=error)
            raise
        event.emit(time=monotonic() - begin, error=None)
        return result

    def _of(self, listener: object) -> list[tuple[Event, Listener]]:
        """A listener object's methods with their events."""
        if isinstance(listener, type):
            raise TypeError(f"{listener.__name__} is a class: subscribe an instance of it, {listener.__name__}()")
        names = self._methods()
        methods = [
            (name, _checked(method))
            for name in dir(type(listener))
            if name.startswith("on_") and callable(method := getattr(listener, name))
        ]
        if unknown := [name for name, _ in methods if name not in names]:
            raise UnknownEventError(
                f"{type(listener).__name__}.{unknown[0]}: there is no such event{did_you_mean(unknown[0], names)}"
            )
        if not methods:
            raise TypeError(
                f"{listener!r} has no method that is called like on_consumer_consumed; a function is subscribed to an "
                'event: subscribe("consumer.consumed", function)'
            )
        return [(names[name], method) for name, method in methods]

    def _methods(self) -> dict[str, Event]:
        return {_method(name): event for name, event in self._events.items()}


def _method(name: str) -> str:
    return f"on_{name.replace('.', '_')}"


def _checked(listener: L) -> L:
    if not callable(listener):
        raise TypeError(f"a listener is called with what occurred, and {listener!r} cannot be called")
    if inspect.iscoroutinefunction(listener):
        raise TypeError(f"{listener!r} is `async def`, and nobody would await it: make it a plain def")
    return listener
