"""Events of an App and their subscribers."""

import inspect
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import ParamSpec, TypeAlias, TypeVar, overload

from grete._config.suggest import did_you_mean
from grete._native import Event, EventChannel
from grete.errors import UnknownEventError
from grete.instrumentation.clock import monotonic
from grete.instrumentation.events import EVENTS
from grete.instrumentation.listener_errors import ListenerErrors

Listener: TypeAlias = Callable[[Event], object]
L = TypeVar("L", bound=Listener)
P = ParamSpec("P")
R = TypeVar("R")

_JOB_EVENTS = ("job.started", "job.finished", "message.process", "message.processed")
_NAME = re.compile(r"[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)+")


class Monitor:
    """All events of one App (`app.monitor`), and their subscribers. Thread-safe.

    ```
    @app.monitor.subscribe("consumer.dead_letter")
    def alarm(occurred: grete.instrumentation.Event) -> None:
        pager.call(f"{occurred['topic']}: {occurred['handler']}")
    ```

    A listener is called in the thread that emits the event, which waits for the listener: a handler's thread, the event
    loop, or in a swarm the supervisor. A listener that raises is logged and emitted as `listener.failed`, and has no
    other effect.

    docs/events.md lists all events with their fields. A node of a swarm has the listeners present at its fork.
    """

    def __init__(self) -> None:
        errors = EventChannel("listener.failed", ListenerErrors(None))
        self._listener_errors = ListenerErrors(errors)
        names = (name for name, spec in EVENTS.items() if spec.emitted)
        self._events = {name: EventChannel(name, self._listener_errors) for name in names} | {errors.name: errors}

    def event(self, name: str) -> EventChannel:
        """Returns the event of that name, to keep: `if event: event.emit(...)` costs almost nothing without listeners.

        Raises UnknownEventError for an unknown name, with the nearest known name.
        """
        try:
            return self._events[name]
        except (KeyError, TypeError):
            if isinstance(name, str) and name in EVENTS:
                raise UnknownEventError(f"{name!r} is logged only: listeners cannot subscribe to it") from None
            raise UnknownEventError(f"there is no event {name!r}{did_you_mean(str(name), self._events)}") from None

    def __iter__(self) -> Iterator[str]:
        """The names of all events."""
        return iter(tuple(self._events))

    @property
    def job_events(self) -> Sequence[EventChannel]:
        """Events that are emitted with each job, or with each of its records."""
        return [self._events[name] for name in _JOB_EVENTS]

    def declare(self, name: str) -> EventChannel:
        """Adds an event of the user and returns it.

        The name is like `shop.charged`: parts of lower case letters, digits and underscores, with dots between them.
        Raises ValueError for any other name, and for a name in use.
        """
        if not _NAME.fullmatch(name):
            raise ValueError(f'an event is called like "shop.charged", not {name!r}')
        if name in self._events or _method_name(name) in self._events_by_method():
            raise ValueError(f"there is an event {name!r}, or one whose listeners' methods are called the same")
        event = self._events[name] = EventChannel(name, self._listener_errors)
        return event

    @overload
    def subscribe(self, listener: str) -> Callable[[L], L]: ...  # type: ignore[overload-overlap]
    @overload
    def subscribe(self, listener: str, function: Listener) -> None: ...
    @overload
    def subscribe(self, listener: object) -> None: ...

    def subscribe(self, listener: object, function: Listener | None = None) -> Callable[[L], L] | None:
        """Subscribes a listener.

        `subscribe("job.finished", function)` calls the function with an `Event` each time; without a function it is a
        decorator. `subscribe(object)` subscribes all its methods with names like `on_job_finished`. Raises
        UnknownEventError for an unknown name of an event or method, and then subscribes nothing.
        """
        if isinstance(listener, str):
            event = self.event(listener)
            if function is not None:
                event.subscribe(_validated(function))
                return None

            def decorate(decorated: L) -> L:
                event.subscribe(_validated(decorated))
                return decorated

            return decorate
        for event, method in self._methods_of(listener):
            event.subscribe(method)
        return None

    def unsubscribe(self, listener: object, function: Listener | None = None) -> None:
        """Reverts `subscribe` with the same arguments; does nothing without such a subscription.

        An emission that is under way still calls all listeners that it began with.
        """
        if isinstance(listener, str):
            self.event(listener).unsubscribe(function)
        else:
            for event, method in self._methods_of(listener):
                event.unsubscribe(method)

    def instrument(self, name: str, payload: Mapping[str, object] | None = None) -> None:
        """Emits an event. Raises UnknownEventError for an unknown name."""
        event = self.event(name)
        if event:
            event.emit(**payload or {})

    def measure(self, event: EventChannel | str, fn: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Calls `fn(*args, **kwargs)` and returns what it returns, or raises what it raises.

        Emits the event with the duration (`time`, seconds) and the exception (`error`; None: it returned). Without
        listeners the clock is not read. A kept event costs less than its name.
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

    def _methods_of(self, listener: object) -> list[tuple[EventChannel, Listener]]:
        """Returns a listener object's methods with their events."""
        if isinstance(listener, type):
            raise TypeError(f"{listener.__name__} is a class: subscribe an instance of it, {listener.__name__}()")
        names = self._events_by_method()
        methods = [
            (name, _validated(method))
            for name in dir(type(listener))
            if name.startswith("on_") and callable(method := getattr(listener, name))
        ]
        if unknown := [name for name, _ in methods if name not in names]:
            raise UnknownEventError(
                f"{type(listener).__name__}.{unknown[0]}: there is no such event{did_you_mean(unknown[0], names)}"
            )
        if not methods:
            raise TypeError(
                f"{listener!r} has no method that is called like on_job_finished; a function is subscribed to an "
                'event: subscribe("job.finished", function)'
            )
        return [(names[name], method) for name, method in methods]

    def _events_by_method(self) -> dict[str, EventChannel]:
        return {_method_name(name): event for name, event in self._events.items()}


def _method_name(name: str) -> str:
    return f"on_{name.replace('.', '_')}"


def _validated(listener: L) -> L:
    if not callable(listener):
        raise TypeError(f"a listener is called with what occurred, and {listener!r} cannot be called")
    call = getattr(type(listener), "__call__", None)  # noqa: B004
    if inspect.iscoroutinefunction(listener) or inspect.iscoroutinefunction(call):
        raise TypeError(f"{listener!r} is `async def`, and would never be awaited: make it a plain def")
    return listener
