"""Command `grete dlq show`."""

import json
from collections.abc import Iterator
from typing import Literal

import click

from grete._cli.dlq.list import to_json
from grete._cli.dlq.options import open_consumer
from grete._cli.param_ranges import OFFSET, PARTITION
from grete._cli.session import AdminSession, admin_command
from grete._cli.terminal import message_format, output
from grete._cli.terminal.escapes import printable
from grete._cli.terminal.table import Styled
from grete._dlq import header_names
from grete._dlq.dead_letter import DeadLetter, format_time, parse_dead_letter
from grete._dlq.reader import OffsetRange, offset_ranges, read_range
from grete._native import Message
from grete._plural import counted

Form = Literal["auto", "text", "hex", "json"]

_HEX_WIDTH = 16


@click.command()
@click.argument("topic")
@click.argument("partition", type=PARTITION)
@click.argument("offset", type=OFFSET)
@click.option(
    "--as",
    "form",
    type=click.Choice(["auto", "text", "hex", "json"]),
    default="auto",
    help="How key and value are shown.  [default: as JSON if they are, else as text if they are, else in hex]",
)
@admin_command
def show(session: AdminSession, topic: str, partition: int, offset: int, form: Form) -> None:
    """Shows one dead letter in full: its failure, headers, key and value."""
    (there,) = offset_ranges(session.admin, topic, partition, session.timeout)
    if not there.begin <= offset < there.end:
        available = f"offsets {there.begin} to {there.end - 1}" if there.begin < there.end else "no records"
        raise click.ClickException(f"{topic}[{partition}] has no offset {offset}: it holds {available}")
    with open_consumer(session) as consumer:
        message = next(
            (
                m
                for batch in read_range(consumer, topic, OffsetRange(partition, offset, offset + 1), session.timeout)
                for m in batch
            ),
            None,
        )
    if message is None:
        raise click.ClickException(
            f"{topic}[{partition}] has no record at offset {offset}: it was compacted away, or is a transaction's mark"
        )
    letter = parse_dead_letter(message)
    if session.as_json:
        whole = json.loads(message_format.format_json([message]))
        session.json(whole | {"failure": None if letter is None else to_json(letter)})
    else:
        output.show(*_lines(message, letter, form))
    if letter is None:
        click.echo("it is no dead letter: none of its headers says where it came from", err=True)


def _lines(message: Message, letter: DeadLetter | None, form: Form) -> Iterator[str]:
    yield Styled(f"{message.topic}[{message.partition}] offset {message.offset}", "bold")
    if letter is not None:
        yield from _failure(letter)
    own = [
        (name, value) for name, value in message.headers if letter is None or not name.startswith(header_names.PREFIX)
    ]
    yield "headers" if own else "headers    none"
    for name, value in own:
        yield f"  {name}: {'null' if value is None else _text(value)}"
    for name, value in (("key", message.key), ("value", message.value)):
        if value is None:
            yield f"{name:<10} null"
        else:
            yield f"{name:<10} {output.count_of(len(value), 'byte')}"
            yield from (f"  {line}" for line in format_bytes(value, form))


def _failure(letter: DeadLetter) -> Iterator[str]:
    yield f"from       {letter.origin}, group {letter.group or '-'}"
    attempts = "an unknown number of attempts" if letter.attempts is None else counted(letter.attempts, "attempt")
    first, last = format_time(letter.first_failed) or "?", format_time(letter.last_failed) or "?"
    yield f"failed     after {attempts}, {first} to {last}"
    if letter.replay_count:
        yield f"replayed   {counted(letter.replay_count, 'time')}"
    yield Styled(f"error      {letter.error_class or '-'}", "red")
    yield from (f"  {line}" for line in letter.error_message.splitlines())


def format_bytes(value: bytes, form: Form) -> list[str]:
    """Returns the bytes as lines. Raises click.ClickException when the bytes do not have the requested form."""
    if form in ("auto", "json"):
        try:
            formatted = json.dumps(json.loads(value.decode()), indent=2, ensure_ascii=False)
            return [printable(line) for line in formatted.splitlines()]
        except ValueError as error:  # UnicodeError is one, too
            if form == "json":
                raise click.ClickException(f"it is no JSON: {error}; --as text or --as hex shows it") from None
    if form == "text" or (form == "auto" and _is_text(value)):
        return [printable(line) for line in _text(value).split("\n")]
    return [
        f"{at:08x}  {value[at : at + _HEX_WIDTH].hex(' '):<{3 * _HEX_WIDTH - 1}}  {_ascii(value[at : at + _HEX_WIDTH])}"
        for at in range(0, len(value), _HEX_WIDTH)
    ]


def _text(value: bytes) -> str:
    return value.decode("utf-8", "backslashreplace")


def _is_text(value: bytes) -> bool:
    try:
        return value.decode().replace("\n", "").replace("\r", "").replace("\t", "").isprintable()
    except UnicodeDecodeError:
        return False


def _ascii(value: bytes) -> str:
    return "".join(chr(byte) if 32 <= byte < 127 else "." for byte in value)
