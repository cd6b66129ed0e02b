"""Methods of a consumer class that look like hooks and that Grete never calls."""

import warnings
from collections.abc import Iterable

from grete._process import callsite
from grete._suggest import did_you_mean
from grete.errors import ConfigError

# Names of callbacks of other libraries, and the hook that runs then. They have no other meaning.
_FOREIGN = {
    **dict.fromkeys(("on_assign", "on_assigned", "on_partitions_assigned"), "initialize"),
    **dict.fromkeys(("on_revoke", "on_revoked", "on_partitions_revoked", "on_lost", "on_partitions_lost"), "revoked"),
    **dict.fromkeys(("on_message", "on_messages", "on_record", "on_batch"), "consume"),
    **dict.fromkeys(("on_start", "on_startup", "on_init"), "initialize"),
    **dict.fromkeys(("on_stop", "on_shutdown", "on_close"), "shutdown"),
    "on_eof": "eof",
    "on_tick": "tick",
    "on_timer": "tick",
}
# Names that a class may also use for methods of its own.
_AMBIGUOUS = {
    **dict.fromkeys(("setup", "set_up", "start", "open", "init"), "initialize"),
    **dict.fromkeys(("close", "stop", "teardown", "tear_down", "cleanup"), "shutdown"),
    **dict.fromkeys(("process", "handle"), "consume"),
}


def check_methods(handler: type, hooks: Iterable[str], where: str) -> None:
    """Refuses a method with the name of another library's callback. Warns of a method whose name is like that of a
    hook, if the class does not define that hook: it may be a method of the class's own.
    """
    hooks = tuple(hooks)
    for name, value in vars(handler).items():
        if name.startswith("_") or name in hooks or not callable(value):
            continue
        if name in _FOREIGN:
            raise ConfigError(
                f"{where}.{name} would never be called: the hook is called {_FOREIGN[name]}", setting=name
            )
        hook = _AMBIGUOUS.get(name) or _misspelled(name, hooks)
        if hook is not None and hook not in vars(handler):
            file, _, line = callsite.caller_location().rpartition(":")
            text = f"{where}.{name} is never called by Grete: the hook is called {hook}; define it, or rename {name}"
            warnings.warn_explicit(text, UserWarning, file or "grete", int(line or 0))


def _misspelled(name: str, hooks: tuple[str, ...]) -> str | None:
    """Returns the hook that a name is a misspelling of; None: of no hook."""
    near = did_you_mean(name.replace("_", ""), hooks)
    hook = near.split('"')[1] if near else None
    # difflib also takes "resume" for "consume".
    return hook if hook is not None and hook[:3] == name[:3] and abs(len(hook) - len(name)) <= 2 else None
