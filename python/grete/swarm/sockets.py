"""Where control sockets lie, and who may put one there: a directory that is ours alone, checked each time."""

import contextlib
import errno
import fcntl
import os
import re
import socket
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path

from grete.errors import ConfigError

LONGEST = 107
"""Bytes of a Unix socket's path, at most: `sun_path` has 108, with a NUL at the end."""
_CURE = "name another with --control PATH, or switch it off with --control none"
_BACKLOG = 64


def directories(environment: Mapping[str, str], uid: int) -> list[Path]:
    """Where this user's sockets may lie, the preferred one first.

    A session has XDG_RUNTIME_DIR and a cron job has not: who asks looks at all of them.
    """
    runtime = Path(environment.get("XDG_RUNTIME_DIR", ""))
    found = [runtime / "grete"] if runtime.is_absolute() and _owned(runtime, uid) else []
    found += [Path(f"/run/user/{uid}/grete"), Path(f"/tmp/grete-{uid}")]  # noqa: S108 - checked to be ours alone
    return list(dict.fromkeys(found))


def default_path(app: str, environment: Mapping[str, str], uid: int, pid: int) -> Path:
    """The socket's path when none is set: it names the App and the supervisor."""
    name = f"{re.sub(r'[^A-Za-z0-9._-]+', '-', app)[:40]}-{pid}.sock"
    here = directories(environment, uid)
    # A login may have no directory of its own below /run, and a long XDG_RUNTIME_DIR leaves no room for a name.
    fitting = [at for at in here if _owned(at.parent, uid) and len(os.fsencode(at / name)) <= LONGEST]
    return (fitting or here[-1:])[0] / name


def listen(path: Path, *, private: bool) -> socket.socket:
    """Listens at `path`, for us alone (0600). `private`: its directory is the default one, which has to be ours alone.

    Who answers there already is left alone; a socket that nobody answers at is replaced. ConfigError says what is in
    the way, and what would do.
    """
    if len(os.fsencode(path)) > LONGEST:
        raise _refusal(path, f"its path has {len(os.fsencode(path))} bytes, and a Unix socket's has at most {LONGEST}")
    try:
        if private:
            _make_private(path.parent)
        else:
            _check_shared(path)
        with _alone(path.parent) as alone:
            if private and alone:
                _sweep(path.parent)
            _make_way(path, alone)
            return _bind(path)
    except OSError as error:
        raise _refusal(path, error.strerror or str(error)) from None
    except ValueError as error:
        raise _refusal(path, f"it is no path: {error}") from None


def remove(path: Path, bound: os.stat_result) -> None:
    """Removes the socket that was bound, and no other that somebody put there meanwhile."""
    with contextlib.suppress(OSError):
        now = path.lstat()
        if (now.st_dev, now.st_ino) == (bound.st_dev, bound.st_ino):
            path.unlink()


def found(environment: Mapping[str, str], uid: int) -> list[Path]:
    """The sockets in this user's directories, answered or not."""
    return [
        path
        for directory in directories(environment, uid)
        if _complaint(directory, uid) is None
        for path in sorted(directory.glob("*.sock"))
    ]


def answered(path: Path) -> bool:
    """Whether somebody listens there. Somebody who is too busy to be asked counts, too."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        return probe.connect_ex(os.fsencode(path)) not in (errno.ECONNREFUSED, errno.ENOENT)


def _bind(path: Path) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    # The mode is right from the first moment on. The mask is the process's, and there is one thread.
    before = os.umask(0o177)
    try:
        listener.bind(os.fsencode(path))
        listener.listen(_BACKLOG)
    except BaseException:
        listener.close()
        raise
    finally:
        os.umask(before)
    return listener


def _make_private(directory: Path) -> None:
    if not directory.parent.is_dir():
        raise _refusal(directory, "there is no directory to make it in")
    with contextlib.suppress(FileExistsError):
        directory.mkdir(mode=0o700)
    complaint = _complaint(directory, os.geteuid())
    if complaint is not None:
        raise _refusal(directory, complaint)


def _complaint(directory: Path, uid: int) -> str | None:
    """Why a default directory is not to be trusted; None: it is."""
    try:
        facts = directory.lstat()
    except OSError as error:
        return error.strerror or str(error)
    if stat.S_ISLNK(facts.st_mode):
        return "it is a symbolic link, and whoever made that could lead it elsewhere"
    if not stat.S_ISDIR(facts.st_mode):
        return "it is no directory"
    if facts.st_uid != uid:
        return f"it belongs to user {facts.st_uid}, and we are user {uid}"
    if facts.st_mode & 0o077:
        return f"others may look into it, its mode is {stat.S_IMODE(facts.st_mode):04o}: chmod 700 it, or"
    return None


def _check_shared(path: Path) -> None:
    """A directory that the user chose: others may see the socket, and must not be able to replace it."""
    facts = path.parent.stat()
    if not stat.S_ISDIR(facts.st_mode):
        raise _refusal(path, f"{path.parent} is no directory")
    if facts.st_mode & 0o022 and not facts.st_mode & stat.S_ISVTX:
        mode = f"{stat.S_IMODE(facts.st_mode):04o}"
        raise _refusal(
            path, f"others may write to {path.parent} (mode {mode}) and could put theirs there: chmod it, or"
        )


@contextlib.contextmanager
def _alone(directory: Path) -> Iterator[bool]:
    """One supervisor at a time looks for stale sockets there: another could be between its bind and its listen.

    Yields whether we are that one.
    """
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
    finally:
        os.close(handle)


def _sweep(directory: Path) -> None:
    """Removes what supervisors left that were killed."""
    for path in directory.glob("*.sock"):
        with contextlib.suppress(OSError):
            if stat.S_ISSOCK(path.lstat().st_mode) and not answered(path):
                path.unlink()


def _make_way(path: Path, alone: bool) -> None:
    try:
        facts = path.lstat()
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(facts.st_mode):
        raise _refusal(path, "there is something else of that name, which is no socket: remove it, or")
    if answered(path):
        raise _refusal(path, "another swarm answers there: stop that one, or")
    if not alone:
        raise _refusal(path, "another swarm is just starting there: try again, or")
    path.unlink()


def _owned(directory: Path, uid: int) -> bool:
    """Whether we may make a directory there without being in anybody's way."""
    try:
        facts = directory.stat()
    except OSError:
        return False
    return stat.S_ISDIR(facts.st_mode) and (facts.st_uid == uid or bool(facts.st_mode & stat.S_ISVTX))


def _refusal(path: Path, why: str) -> ConfigError:
    cure = f" {_CURE}" if why.endswith(", or") else f"; {_CURE}"
    return ConfigError(f"the control socket cannot be at {path}: {why}{cure}", setting="control")
