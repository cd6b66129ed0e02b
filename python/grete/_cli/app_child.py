"""`python -m grete._cli.app_child PARENT WORDS...`: `grete WORDS...`, which does not outlive the process PARENT.

With `--program FILE` before the words, FILE is run with `grete WORDS...`: Django's manage.py.
"""

import os
import runpy
import sys
from pathlib import Path

from grete import _cli, _native


def main() -> None:
    """Runs the command of the arguments."""
    _native.die_with_parent()
    words = sys.argv[2:]
    if os.getppid() != int(sys.argv[1]):
        sys.exit(1)  # the parent ended before the call
    if words[0] != "--program":
        _cli.main(words, prog_name="grete")
        return
    _, program, *words = words
    sys.argv = [program, "grete", *words]
    sys.path.insert(0, str(Path(program).resolve().parent))
    runpy.run_path(program, run_name="__main__")


if __name__ == "__main__":
    main()
