"""The Manager in made-up worlds, from seeds. `GRETE_SEED=n` runs one and prints it, `GRETE_SEEDS=n` that many."""

import os

from grete.instrumentation.events import MANAGER
from tests.unit.swarm_simulation import Simulation

SEEDS = int(os.environ.get("GRETE_SEEDS", "1000"))
REASONS = {
    "memory",
    "gil",
    "handler",
    "membership",
    "report",
    "pipe",
    "restart",
    "itself",
    "stop",
    "not_ready",
    "quiet",
}


def test_what_is_always_so_is_so_whatever_nodes_do() -> None:
    one = os.environ.get("GRETE_SEED")
    said: set[str] = set()
    for seed in [int(one)] if one else range(SEEDS):
        simulation = Simulation(seed, loud=one is not None)
        try:
            simulation.run()
        except BaseException as error:
            error.add_note(f"GRETE_SEED={seed}")
            raise
        said |= simulation.said
    if one is None and SEEDS >= 1000:
        assert said >= MANAGER.keys() | REASONS, "these worlds do not bring about all that there is"
