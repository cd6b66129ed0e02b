"""`grete dlq show`."""

import json
from collections.abc import Iterator
from typing import Literal

import click

from grete._core import Message
from grete.cli import render
from grete.cli.dlq.listing import as_json
from grete.cli.dlq.options import reader
from grete.cli.session import Session, admin_command
from grete.dlq import headers
from grete.dlq.letter import Letter, iso, letter_of
from grete.dlq.reading import Span, read, spans

Form = Literal["auto", "text", "hex", "json"]

_HEX_WIDTH = 16


@click.command()
@click.argument("topic")
@click.argument("partition", type=click.IntRange(min=0))
@click.argument("offset", type=click.IntRange(min=0))
@click.option(
    "--as",
    "form",
    type=click.Choice(["auto", "text", "hex", "json"]),
    default="auto",
    help="How key and value are shown.  [default: as JSON if they are, else as text if they are, else in hex]",
)
@admin_command
def show(session: Session, topic: str, partition: int, offset: int, form: Form) -> None:
    """Shows one dead letter whole: what has happened, headers, key and value."""
    (there,) = spans(session.admin, topic, partition, session.timeout)
    if not there.begin <= offset < there.end:
        held = f"offsets {there.begin} to {there.end - 1}" if there.begin < there.end else "no records"
        raise click.ClickException(f"{topic}[{partition}] has no offset {offset}: it holds {held}")
    with reader(session) as consumer:
        message = next(
            (m for batch in read(consumer, topic, Span(partition, offset, offset + 1), session.timeout) for m in batch),
            None,
        )
    if message is None:
        raise click.ClickException(
            f"{topic}[{partition}] has no record at offset {offset}: it was compacted away, or is a transaction's mark"
        )
    letter = letter_of(message)
    if session.as_json:
        whole = json.loads(render.as_json([message]))
        session.json(whole | {"failure": None if letter is None else as_json(letter)})
    else:
        click.echo("\n".join(_lines(message, letter, form)))
    if letter is None:
        click.echo("it is no dead letter: none of its headers says where it came from", err=True)


def _lines(message: Message, letter: Letter | None, form: Form) -> Iterator[str]:
    yield f"{message.topic}[{message.partition}] offset {message.offset}"
    if letter is not None:
        yield from _failure(letter)
    own = [(name, value) for name, value in message.headers if letter is None or not name.startswith(headers.PREFIX)]
    yield "headers" if own else "headers    none"
    for name, value in own:
        yield f"  {render.printable(name)}: {'null' if value is None else render.printable(_text(value))}"
    for name, value in (("key", message.key), ("value", message.value)):
        if value is None:
            yield f"{name:<10} null"
        else:
            yield f"{name:<10} {len(value):,} bytes"
            yield from (f"  {line}" for line in formed(value, form))


def _failure(letter: Letter) -> Iterator[str]:
    yield f"from       {letter.origin}, group {render.printable(letter.group) or '-'}"
    attempts = "an unknown number of" if letter.attempts is None else letter.attempts
    yield f"failed     after {attempts} attempts, {iso(letter.first_failed) or '?'} to {iso(letter.last_failed) or '?'}"
    if letter.replayed:
        yield f"replayed   {letter.replayed} times"
    yield f"error      {render.printable(letter.error) or '-'}"
    yield from (f"  {render.printable(line)}" for line in letter.text.splitlines())


def formed(value: bytes, form: Form) -> list[str]:
    """The bytes as lines. Raises click.ClickException when they are not what was asked for."""
    if form in ("auto", "json"):
        try:
            told = json.dumps(json.loads(value.decode()), indent=2, ensure_ascii=False)
            return [render.printable(line) for line in told.splitlines()]
        except ValueError as error:  # UnicodeError is one, too
            if form == "json":
                raise click.ClickException(f"it is no JSON: {error}; --as text or --as hex shows it") from None
    if form == "text" or (form == "auto" and _is_text(value)):
        return [render.printable(line) for line in _text(value).split("\n")]
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
