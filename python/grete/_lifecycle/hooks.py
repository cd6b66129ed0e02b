"""Declarations of `@app.on_startup`, `@app.on_shutdown` and `lifespan=`, and the state that they set for handlers."""

import inspect
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from grete._lifecycle.preload import user_frames
from grete.errors import ConfigError, StartupError

Kind: TypeAlias = Literal["on_startup", "on_shutdown", "lifespan"]
Lifespan: TypeAlias = Callable[[Any], AbstractAsyncContextManager[Any]]
"""Factory of an asynchronous context manager. It takes the App."""


class State:
    """Attributes that the App's hooks set for its handlers: `app.state.pool = ...`. Each process has its own.

    What a preload sets is shared by the nodes of a swarm, until a node sets it again.
    """

    def __getattr__(self, name: str) -> Any:
        """Raises AttributeError with the names that are set."""
        if name.startswith("__"):
            raise AttributeError(name)
        names = ", ".join(sorted(vars(self))) or "nothing"
        raise AttributeError(
            f'app.state has no "{name}", only {names}: set it in a function of @app.on_startup, or let lifespan= '
            f'yield {{"{name}": ...}}',
            name=name,
            obj=self,
        )

    def __setattr__(self, name: str, value: Any) -> None:
        """Sets an attribute."""
        object.__setattr__(self, name, value)

    def __delattr__(self, name: str) -> None:
        """Deletes an attribute."""
        object.__delattr__(self, name)

    def __contains__(self, name: object) -> bool:
        """Returns whether the attribute is set."""
        return name in vars(self)

    def __iter__(self) -> Iterator[str]:
        """Iterates over the names that are set."""
        return iter(list(vars(self)))

    def __repr__(self) -> str:
        return f"<app.state: {', '.join(sorted(vars(self))) or 'nothing is set'}>"


@dataclass(frozen=True, slots=True)
class Hook:
    """A function that runs at the start or at the stop. `location`: "file:line" of its declaration."""

    kind: Kind
    function: Callable[..., Any]
    name: str
    location: str
    is_async: bool

    def __str__(self) -> str:
        return f"{self.kind} {self.name} ({self.location})" if self.location else f"{self.kind} {self.name}"


def make_hook(kind: Kind, function: Any, location: str) -> Hook:
    """Checks a declaration. ConfigError says what is wrong, and the cure."""
    if not callable(function):
        usage = f"@app.{kind} stands before a function, without parentheses"
        if kind == "lifespan":
            usage = "lifespan= takes a function of the App that returns an asynchronous context manager"
        raise ConfigError(f"{usage}, not {function!r}", setting=kind)
    name: str = getattr(function, "__qualname__", type(function).__qualname__)
    called = function if inspect.isroutine(function) else getattr(function, "__call__", function)  # noqa: B004
    if inspect.isgeneratorfunction(called) or inspect.isasyncgenfunction(called):
        cure = (
            "put @contextlib.asynccontextmanager before it"
            if kind == "lifespan"
            else "make it a plain function, or use App(..., lifespan=...) for what is opened and closed in one function"
        )
        raise ConfigError(f"{kind} {name} has a yield: {cure}", setting=kind)
    is_async = kind == "lifespan" or inspect.iscoroutinefunction(called)
    if kind == "lifespan" and inspect.iscoroutinefunction(called):
        raise ConfigError(
            f"lifespan {name} is a coroutine function, and returns no context manager: yield in it, and put "
            "@contextlib.asynccontextmanager before it",
            setting=kind,
        )
    arguments = ("app",) if kind == "lifespan" else ()
    try:
        inspect.signature(function).bind(*arguments)
    except TypeError as error:
        with_what = "with the App" if arguments else "without arguments"
        raise ConfigError(f"{kind} {name} is called {with_what}: {error}", setting=kind) from None
    except ValueError:
        pass  # a builtin without a signature
    return Hook(kind, function, name, location, is_async)


class Lifecycle:
    """Hooks of an App, in the order of their declarations."""

    def __init__(self) -> None:
        self.startup: list[Hook] = []
        self.shutdown: list[Hook] = []
        self.lifespan: Hook | None = None
        self.state = State()

    def add(self, kind: Kind, function: object, location: str) -> None:
        """Checks and adds a hook. Raises ConfigError."""
        hook = make_hook(kind, function, location)
        if kind == "lifespan":
            self.lifespan = hook
        else:
            (self.startup if kind == "on_startup" else self.shutdown).append(hook)

    def __bool__(self) -> bool:
        return bool(self.startup or self.shutdown or self.lifespan)

    @property
    def is_async(self) -> bool:
        """Whether a hook needs an event loop."""
        return self.lifespan is not None or any(hook.is_async for hook in (*self.startup, *self.shutdown))


def call_plain(hook: Hook) -> None:
    """Calls a hook that is no coroutine function. Raises TypeError if it returns an awaitable."""
    result = hook.function()
    if inspect.isawaitable(result):
        if inspect.iscoroutine(result):
            result.close()  # or Python would warn that it was never awaited
        raise TypeError("it returned an awaitable that is never awaited: make it an async def")


def open_lifespan(hook: Hook, app: object) -> AbstractAsyncContextManager[Any]:
    """Returns the context manager of `lifespan=`. Raises TypeError if it is none."""
    manager = hook.function(app)
    if isinstance(manager, AbstractAsyncContextManager):
        return manager
    if inspect.iscoroutine(manager):
        manager.close()
    raise TypeError(
        f"it returned {manager!r}, not an asynchronous context manager: put @contextlib.asynccontextmanager before the "
        "function, and yield in it"
    )


def set_state(state: State, value: object) -> None:
    """Sets what `lifespan=` has yielded: a mapping of attributes, or None for nothing."""
    if value is None:
        return
    if not isinstance(value, Mapping) or not all(isinstance(name, str) for name in value):
        raise TypeError(
            f'lifespan= yields nothing, or a mapping of the attributes of app.state, like {{"pool": pool}}, not '
            f"{value!r}"
        )
    for name, attribute in value.items():
        setattr(state, name, attribute)


def startup_error(hook: Hook, error: BaseException) -> StartupError:
    """Describes the failure of a hook of the start, with the user's own frames."""
    frames = user_frames(error)
    if isinstance(error, SystemExit):
        text = (
            f"{hook} called sys.exit({error.code!r}); one that cannot do its work raises an exception, and the start "
            f"ends with its text\n{frames}"
        )
    else:
        text = f"{hook} failed:\n{frames}{''.join(traceback.format_exception_only(error))}"
    return StartupError(text.rstrip(), hook=hook.name, location=hook.location)
