"""`python -m tests.plants [NAME...]`: plant known defects, and see that their tests find them."""

from __future__ import annotations

import sys

from tests.plants import check, copy_of_the_tree, plants


def main() -> int:
    wanted = set(sys.argv[1:])
    chosen = [plant for plant in plants() if not wanted or plant.name in wanted]
    if not chosen:
        print(f"there are {', '.join(plant.name for plant in plants())}", file=sys.stderr)
        return 2
    missed = 0
    with copy_of_the_tree() as tree:
        for plant in chosen:
            try:
                check(tree, plant)
            except AssertionError as error:
                missed += 1
                print(f"MISSED {error}", flush=True)
            else:
                print(f"found  {plant.name}: {plant.pitfall}", flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
