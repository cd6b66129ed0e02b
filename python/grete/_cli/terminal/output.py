"""Output of commands: either all output of a command is written to standard output, or an error ends the command.

Python's own stream cannot promise that. With PYTHONUNBUFFERED it is a raw file: it writes as much as fits, and `print`
ignores the rest. With a non-blocking pipe it raises in the middle. A full disk is reported only at exit.

On a terminal, rich draws tables and colors (none with NO_COLOR). Everywhere else the output is plain text for scripts,
and rich is not imported.
"""

import errno
import io
import os
import select
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, TextIO

import click

from grete._cli.terminal.escapes import printable
from grete._cli.terminal.table import Styled, Table
from grete._plural import plural

if TYPE_CHECKING:
    import rich.console
    from _typeshed import ReadableBuffer

# Exit status that a shell reports for a process that SIGPIPE has ended.
EXIT_SIGPIPE = 128 + signal.SIGPIPE


class _Descriptor(io.RawIOBase):
    """Standard output without a buffer. A failed write raises click's exceptions, which end a command."""

    def __init__(self, stream: TextIO | None) -> None:
        self.stream = stream
        """Previous `sys.stdout`."""
        self._fd = None if stream is None else stream.fileno()

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        if self._fd is None:
            raise io.UnsupportedOperation("standard output is closed")
        return self._fd

    def isatty(self) -> bool:
        return self._fd is not None and os.isatty(self._fd)

    def write(self, data: "ReadableBuffer", /) -> int:
        """Writes all of `data`, and waits for as long as necessary."""
        fd = self._open()
        with memoryview(data).cast("B") as left:
            at = 0
            while at < len(left):
                try:
                    at += os.write(fd, left[at:])
                except BlockingIOError:
                    select.select([], [fd], [])
                except OSError as error:
                    raise _write_error(error) from None
            return at

    def check(self) -> None:
        """Raises the error of a write, as far as it is known without one."""
        poll = select.poll()
        poll.register(self._open(), 0)
        if any(events & (select.POLLERR | select.POLLHUP) for _, events in poll.poll(0)):
            raise click.exceptions.Exit(EXIT_SIGPIPE)

    def _open(self) -> int:
        if self._fd is None:
            raise click.ClickException("standard output is closed: send it to a file or a command, or to /dev/null")
        return self._fd


def _write_error(error: OSError) -> click.ClickException | click.exceptions.Exit:
    if error.errno == errno.EPIPE:
        return click.exceptions.Exit(EXIT_SIGPIPE)
    return click.ClickException(f"standard output cannot be written: {error.strerror}")


@contextmanager
def checked_stdout() -> Iterator[None]:
    """Makes `sys.stdout` write everything or raise, with or without Python's buffer. A stream in memory is not
    replaced.
    """
    before = sys.stdout
    try:
        descriptor = _Descriptor(before)
    except (OSError, ValueError):
        yield  # the stream has no descriptor
        return
    if before is not None:
        before.flush()
    encoding, errors = (None, None) if before is None else (before.encoding, before.errors)
    sys.stdout = io.TextIOWrapper(descriptor, encoding, errors, write_through=True)
    try:
        yield
    finally:
        sys.stdout = before


def restore_stdout() -> None:
    """Restores Python's own `sys.stdout`, because the output of an App is the App's responsibility."""
    descriptor = _descriptor()
    if descriptor is not None:
        sys.stdout = descriptor.stream


def check_stdout() -> None:
    """Ends the command when standard output is closed, or its reader has closed the pipe. For use before any change."""
    descriptor = _descriptor()
    if descriptor is not None:
        descriptor.check()


def show(*parts: str | Table) -> None:
    """Prints lines and tables to standard output. Control characters are escaped, so that names of topics and groups
    cannot command the terminal.
    """
    console = new_console(sys.stdout) if is_terminal(sys.stdout) else None
    for part in parts:
        if isinstance(part, Table):
            if console is None:
                click.echo(str(part))
            else:
                console.print(part.draw())
        elif console is not None and isinstance(part, Styled):
            console.print(printable(part), style=part.style, soft_wrap=True)
        else:
            click.echo(printable(part))


def new_console(stream: TextIO) -> "rich.console.Console":
    """Returns a console of rich that shows text as it is: without markup, emoji codes and highlighting."""
    import rich.console

    return rich.console.Console(file=stream, markup=False, emoji=False, highlight=False)


def print_stderr(text: str) -> None:
    """Writes a line to standard error, if possible: a failure must not change the result of the command."""
    with suppress(OSError):
        click.echo(printable(text), err=True)


def note(text: str) -> None:
    """Writes a line that is no data to standard error. Control characters are escaped."""
    click.echo(printable(text), err=True)


def count_of(count: int, what: str) -> str:
    """Returns a number with its noun: "1 record", "10,000 records"."""
    return f"{count:,} {plural(count, what)}"


def is_terminal(stream: TextIO | None) -> bool:
    """Returns whether the stream is a terminal; a stream that was closed before the start is None."""
    return stream is not None and stream.isatty()


def _descriptor() -> _Descriptor | None:
    buffer = getattr(sys.stdout, "buffer", None)
    return buffer if isinstance(buffer, _Descriptor) else None
