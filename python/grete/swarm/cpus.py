"""On which CPU a node runs."""

import os

from grete.config import Config
from grete.errors import ConfigError


def check(config: Config) -> None:
    """Refuses CPUs that this process may not use."""
    value = config.swarm_values["cpus"]
    if not isinstance(value.value, tuple):
        return
    usable = os.sched_getaffinity(0)
    missing = [cpu for cpu in value.value if cpu not in usable]
    if missing:
        named = f"CPU {missing[0]} is" if len(missing) == 1 else f"CPUs {', '.join(map(str, missing))} are"
        raise ConfigError(
            f"swarm.cpus (from {value.origin}): {named} not among those that this process may use: "
            f'{_ranges(sorted(usable))}; name some of these, or "auto"',
            setting="swarm.cpus",
            origin=value.origin,
        )


def of_node(cpus: str | tuple[int, ...], node: int) -> int | None:
    """The CPU of a node; they start anew at the first where there are more nodes. None: any."""
    if cpus == "none":
        return None
    known = cpus if isinstance(cpus, tuple) else tuple(sorted(os.sched_getaffinity(0)))
    return known[node % len(known)]


def apply(config: Config, node: int) -> int | None:
    """In the node, before it starts threads, which inherit it: from now on this process runs on its CPU only."""
    cpu = of_node(config.swarm.cpus, node)
    if cpu is not None:
        os.sched_setaffinity(0, {cpu})
    return cpu


def _ranges(numbers: list[int]) -> str:
    """0-3, 6."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and runs[-1][1] == number - 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ", ".join(f"{first}" if first == last else f"{first}-{last}" for first, last in runs)
