"""The parts where each record is handed to a handler: every client in turn, round after round."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.common.progress import say
from benchmarks.common.run import ClientFailedError, run_client
from benchmarks.consume.rows import Run

from .catalogue import Client, Part
from .measurement import Bench, Measurement


def measure(
    bench: Bench, found: Measurement, part: Part, clients: Sequence[Client], number: int, rounds: int, records: int
) -> None:
    """One round. A client that failed once is left out of later ones."""
    for client in clients:
        if any(failure.startswith(f"{part.name}, {client.name}:") for failure in found.failures):
            continue
        try:
            run = one(bench, part, client, records)
        except ClientFailedError as error:
            found.failed(f"{part.name}, {client.name}", error)
            continue
        found.runs.append(run)
        per_record = 1e6 * run.cpu_seconds / run.counted
        say(f"  round {number}/{rounds} {part.name} {client.name}: {per_record:,.3f} us of CPU per record")


def one(bench: Bench, part: Part, client: Client, records: int) -> Run:
    """One process."""
    lines = run_client(client.command(bench.broker.bootstrap, records), bench.cores.client, bench.timeout)
    line = {name: value for one_of in lines for name, value in one_of.items()}
    check(client, line, records)
    return Run.read(part.name, client.name, client.title, line)


def check(client: Client, line: Mapping[str, Any], records: int) -> None:
    """A client that skips records, or hands over something else, is not fast."""
    if "counted" not in line or line["got"] != client.got:
        raise ClientFailedError(f"its handler was given {line.get('got')}, not {client.got}")
    if line["records"] < client.records(records) or not line["counted"]:
        raise ClientFailedError(f"handled {line['records']} records, counted {line['counted']}")
