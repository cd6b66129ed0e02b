"""Command `grete lag`."""

import time
from collections.abc import Mapping
from datetime import UTC, datetime

import click

from grete import _units
from grete._cli.param_ranges import ParsedType
from grete._cli.session import AdminSession, admin_command
from grete._cli.terminal import output
from grete.client import Lag
from grete.errors import UnknownGroupError

Lags = Mapping[tuple[str, int], Lag]

_WATCH_INTERVAL = "2s"
_NAMED = 3  # partitions that are named in one line


def _interval(text: str) -> float:
    seconds = _units.seconds(text)
    if seconds < 0.1:
        raise ValueError(f'"{text}" is too short: the least is 100ms')
    return seconds


@click.command()
@click.argument("names", metavar="[GROUP...]", nargs=-1)
@click.option("--watch", "-w", is_flag=True, help="Show it again and again, with the change per second, until Ctrl-C.")
@click.option(
    "--interval",
    type=ParsedType("interval", _interval),
    default=_WATCH_INTERVAL,
    show_default=True,
    metavar="DURATION",
    help="How often, with --watch.",
)
@admin_command
def lag(session: AdminSession, names: tuple[str, ...], watch: bool, interval: float) -> None:
    """Shows the lag of consumer groups, one line each: of all that have offsets or partitions, or of GROUP...

    The lag is the number of offsets between what a group has committed and the end of each partition. A partition
    without a committed offset is named and not counted; "lag -" says that nothing is known. `grete groups describe`
    shows each partition.
    """
    before: dict[str, tuple[float, int]] = {}
    try:
        while True:
            started = time.monotonic()
            found = _lags(session, names)
            for group, lags in found.items():
                _show(session, group, lags, before, watch)
            if not watch:
                break
            time.sleep(max(0.0, interval - (time.monotonic() - started)))
    except KeyboardInterrupt:
        if not watch:
            raise
        return  # the usual way to end --watch
    if not found and not session.as_json:
        output.note("no group has committed offsets or partitions")


def _lags(session: AdminSession, names: tuple[str, ...]) -> dict[str, Lags]:
    groups = list(dict.fromkeys(names)) or [group.group for group in session.admin.groups(timeout=session.timeout)]
    found: dict[str, Lags] = {group: session.admin.lag(group, timeout=session.timeout) for group in groups}
    for group in names:
        if not found[group] and group not in (one.group for one in session.admin.groups(timeout=session.timeout)):
            raise UnknownGroupError(f"there is no group {group!r}: check the name (grete groups list)", group=group)
    return {group: lags for group, lags in found.items() if lags or group in names}


def _show(session: AdminSession, group: str, lags: Lags, before: dict[str, tuple[float, int]], watch: bool) -> None:
    known = {at: one.lag for at, one in lags.items() if one.lag is not None}
    total, now = sum(known.values()) if known else None, time.monotonic()
    rate = None
    if total is None:
        before.pop(group, None)
    else:
        if group in before:
            since, last = before[group]
            rate = (total - last) / max(now - since, 1e-9)
        before[group] = now, total
    topics = sorted({topic for topic, _ in lags})
    at = datetime.now(UTC).astimezone()
    if session.as_json:
        facts: dict[str, object] = {"group": group, "lag": total, "topics": topics, "partitions": len(lags)}
        facts["unknown"] = len(lags) - len(known)
        if watch:
            facts |= {"time": at.isoformat(timespec="milliseconds"), "change_per_second": rate}
        session.json(facts)
        return
    change = "" if rate is None else f", {rate:+,.0f}/s"
    shown = "-" if total is None else f"{total:,}"
    session.done(f"{f'{at:%H:%M:%S}  ' if watch else ''}{group}  lag {shown}{change}  ({_explained(lags, known)})")


def _explained(lags: Lags, known: Mapping[tuple[str, int], int]) -> str:
    """Returns the partitions and topics, the partition with the largest lag, and why some lag is unknown."""
    if not lags:
        return "unknown: no committed offset, and no partition assigned"
    topics = sorted({topic for topic, _ in lags})
    parts = [f"{output.count_of(len(lags), 'partition')} of {', '.join(topics)}"]
    worst = max(known, key=lambda at: (known[at], at), default=None)
    if worst is not None and len(known) > 1 and known[worst]:
        parts.append(f"most in {worst[0]}[{worst[1]}]: {known[worst]:,}")
    for why, unknown in (
        ("no committed offset", [at for at, one in lags.items() if one.committed is None]),
        ("no end offset", [at for at, one in lags.items() if one.committed is not None and one.end is None]),
    ):
        if unknown and len(unknown) == len(lags):
            parts.append(f"unknown: {why}")
        elif unknown:
            more = f" and {len(unknown) - _NAMED:,} more" if len(unknown) > _NAMED else ""
            named = ", ".join(f"{topic}[{partition}]" for topic, partition in sorted(unknown)[:_NAMED])
            parts.append(f"unknown in {named}{more}: {why}")
    return "; ".join(parts)
