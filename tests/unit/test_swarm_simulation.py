"""The Manager in made-up worlds, from seeds. `GRETE_SEED=n` runs one and tells it all, `GRETE_SEEDS=n` that many."""

import os

from tests.unit.swarm_simulation import Simulation

SEEDS = int(os.environ.get("GRETE_SEEDS", "1000"))


def test_what_is_always_so_is_so_whatever_nodes_do() -> None:
    one = os.environ.get("GRETE_SEED")
    for seed in [int(one)] if one else range(SEEDS):
        try:
            Simulation(seed, loud=one is not None).run()
        except BaseException as error:
            error.add_note(f"GRETE_SEED={seed}")
            raise
