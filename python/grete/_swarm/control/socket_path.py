"""Paths of control sockets, and their protection: the directory belongs to this user alone, checked on each use."""

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

MAX_PATH_BYTES = 107
"""Maximum bytes of a Unix socket's path: `sun_path` has 108, with a NUL at the end."""
_REMEDY = "name another with --control PATH, or switch it off with --control none"
_BACKLOG = 64


def directories(environment: Mapping[str, str], uid: int) -> list[Path]:
    """Returns the directories for this user's sockets, the preferred one first.

    A login session has XDG_RUNTIME_DIR and a cron job has not, so a client searches all of them.
    """
    runtime = Path(environment.get("XDG_RUNTIME_DIR", ""))
    found = [runtime / "grete"] if runtime.is_absolute() and _is_safe_parent(runtime, uid) else []
    found += [Path(f"/run/user/{uid}/grete"), Path(f"/tmp/grete-{uid}")]  # noqa: S108 - checked to be ours alone
    return list(dict.fromkeys(found))


def default_path(app: str, environment: Mapping[str, str], uid: int, pid: int) -> Path:
    """Returns the default path of the socket, with the names of the App and the supervisor's pid."""
    name = f"{re.sub(r'[^A-Za-z0-9._-]+', '-', app)[:40]}-{pid}.sock"
    here = directories(environment, uid)
    # A login may have no directory of its own below /run, and a long XDG_RUNTIME_DIR may leave no room for the name.
    fitting = [at for at in here if _is_safe_parent(at.parent, uid) and len(os.fsencode(at / name)) <= MAX_PATH_BYTES]
    return (fitting or here[-1:])[0] / name


def listen(path: Path, *, private: bool) -> socket.socket:
    """Listens at `path` with mode 0600. `private`: its directory is a default one, which must be this user's alone.

    A socket that a process listens at is left alone; a stale one is replaced. ConfigError says what is in the way, and
    the cure.
    """
    if len(os.fsencode(path)) > MAX_PATH_BYTES:
        raise _config_error(
            path, f"its path has {len(os.fsencode(path))} bytes, and a Unix socket's has at most {MAX_PATH_BYTES}"
        )
    try:
        if private:
            _ensure_private_dir(path.parent)
        else:
            _check_shared_dir(path)
        with _directory_lock(path.parent) as alone:
            if private and alone:
                _remove_stale(path.parent)
            _replace_stale(path, alone)
            return _bind(path)
    except OSError as error:
        raise _config_error(path, error.strerror or str(error)) from None
    except ValueError as error:
        raise _config_error(path, f"it is no path: {error}") from None


def remove(path: Path, bound: os.stat_result) -> None:
    """Removes the socket that was bound, unless another one has replaced it meanwhile."""
    with contextlib.suppress(OSError):
        now = path.lstat()
        if (now.st_dev, now.st_ino) == (bound.st_dev, bound.st_ino):
            path.unlink()


def discover(environment: Mapping[str, str], uid: int) -> list[Path]:
    """Returns the sockets in this user's directories, stale ones included."""
    return [
        path
        for directory in directories(environment, uid)
        if _distrust_reason(directory, uid) is None
        for path in sorted(directory.glob("*.sock"))
    ]


def is_alive(path: Path) -> bool:
    """Returns whether a process listens there. A process that is too busy to accept counts, too."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        return probe.connect_ex(os.fsencode(path)) not in (errno.ECONNREFUSED, errno.ENOENT)


def _bind(path: Path) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    # The mode is right from the start. The umask belongs to the process, which has one thread.
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


def _ensure_private_dir(directory: Path) -> None:
    if not directory.parent.is_dir():
        raise _config_error(directory, "there is no directory to make it in")
    with contextlib.suppress(FileExistsError):
        directory.mkdir(mode=0o700)
    complaint = _distrust_reason(directory, os.geteuid())
    if complaint is not None:
        raise _config_error(directory, complaint)


def _distrust_reason(directory: Path, uid: int) -> str | None:
    """Returns why a default directory is not trusted; None: it is."""
    try:
        facts = directory.lstat()
    except OSError as error:
        return error.strerror or str(error)
    if stat.S_ISLNK(facts.st_mode):
        return "it is a symbolic link, and its owner could redirect it"
    if not stat.S_ISDIR(facts.st_mode):
        return "it is no directory"
    if facts.st_uid != uid:
        return f"it belongs to user {facts.st_uid}, and we are user {uid}"
    if facts.st_mode & 0o077:
        return f"others may look into it, its mode is {stat.S_IMODE(facts.st_mode):04o}: chmod 700 it, or"
    return None


def _check_shared_dir(path: Path) -> None:
    """Checks a directory that the user chose: other users may see the socket, but must not be able to replace it."""
    facts = path.parent.stat()
    if not stat.S_ISDIR(facts.st_mode):
        raise _config_error(path, f"{path.parent} is no directory")
    if facts.st_mode & 0o022 and not facts.st_mode & stat.S_ISVTX:
        mode = f"{stat.S_IMODE(facts.st_mode):04o}"
        raise _config_error(
            path, f"others may write to {path.parent} (mode {mode}) and could put theirs there: chmod it, or"
        )


@contextlib.contextmanager
def _directory_lock(directory: Path) -> Iterator[bool]:
    """Lets one supervisor at a time remove stale sockets: another one could be between its bind and its listen.

    Yields whether this process holds the lock.
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


def _remove_stale(directory: Path) -> None:
    """Removes the sockets of supervisors that were killed."""
    for path in directory.glob("*.sock"):
        with contextlib.suppress(OSError):
            if stat.S_ISSOCK(path.lstat().st_mode) and not is_alive(path):
                path.unlink()


def _replace_stale(path: Path, alone: bool) -> None:
    try:
        facts = path.lstat()
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(facts.st_mode):
        raise _config_error(path, "there is something else of that name, which is no socket: remove it, or")
    if is_alive(path):
        raise _config_error(path, "another swarm answers there: stop that one, or")
    if not alone:
        raise _config_error(path, "another swarm is just starting there: try again, or")
    path.unlink()


def _is_safe_parent(directory: Path, uid: int) -> bool:
    """Returns whether a directory can be created there without interfering with other users."""
    try:
        facts = directory.stat()
    except OSError:
        return False
    return stat.S_ISDIR(facts.st_mode) and (facts.st_uid == uid or bool(facts.st_mode & stat.S_ISVTX))


def _config_error(path: Path, why: str) -> ConfigError:
    cure = f" {_REMEDY}" if why.endswith(", or") else f"; {_REMEDY}"
    return ConfigError(f"the control socket cannot be at {path}: {why}{cure}", setting="control")
