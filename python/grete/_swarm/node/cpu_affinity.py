"""CPU affinity of nodes."""

import os

from grete._config.layers import Config
from grete.errors import ConfigError


def check_cpus(config: Config) -> None:
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
            f'{_format_ranges(sorted(usable))}; name some of these, or "auto"',
            setting="swarm.cpus",
            origin=value.origin,
        )


def cpu_of_node(cpus: str | tuple[int, ...], node: int) -> int | None:
    """Returns the CPU of a node; nodes beyond the number of CPUs begin again at the first. None: any CPU."""
    if cpus == "none":
        return None
    known = cpus if isinstance(cpus, tuple) else tuple(sorted(os.sched_getaffinity(0)))
    return known[node % len(known)]


def pin_to_cpu(config: Config, node: int) -> int | None:
    """Binds this process to its CPU. Called in the node before it starts threads, which inherit the affinity."""
    cpu = cpu_of_node(config.swarm.cpus, node)
    if cpu is not None:
        os.sched_setaffinity(0, {cpu})
    return cpu


def _format_ranges(numbers: list[int]) -> str:
    """Formats CPU numbers: "0-3, 6"."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and runs[-1][1] == number - 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ", ".join(f"{first}" if first == last else f"{first}-{last}" for first, last in runs)
