"""Whether nodes have room to live in."""

import os

from grete.config import Config
from grete.errors import ConfigError
from grete.swarm import memory


def check(config: Config) -> None:
    """Refuses a `max_rss` that each node would be above with what it inherits. After the preloads, before the fork."""
    limit = config.swarm_values["max_rss"]
    now = memory.rss(os.getpid())
    if limit.value is None or now is None or now < limit.value:
        return
    raise ConfigError(
        f"swarm.max_rss (from {limit.origin}) is {limit.value >> 20} MiB, and the supervisor has {now >> 20} MiB with "
        "what is loaded before the fork: each node begins with as much (shared pages count); allow that, and what a "
        "node needs for itself",
        setting="swarm.max_rss",
        origin=limit.origin,
    )
