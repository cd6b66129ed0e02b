"""python -m release.check_targets: which crates pass the type check for which platforms.

A check links nothing, so C code of dependencies is not compiled: a stub stands for the C compiler. Exit status 1 if a
crate fails that is in the list of those that pass.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from .licenses import ROOT

# In the order of their layers.
CRATES = (
    "grete-wire",
    "grete-sys",
    "grete-proto",
    "grete-arrow",
    "grete-avro",
    "grete-net",
    "grete-client",
    "grete-broker",
    "grete-sim",
    "grete-trace",
    "grete-health",
    "grete-py",
)
# Crates that are known to pass on each Apple system.
APPLE = frozenset(CRATES) - {"grete-net", "grete-client", "grete-py"}


@dataclass(frozen=True)
class Platform:
    """Platform that is only type-checked.

    Attributes:
        passes: crates that passed before; the others may need work first.
    """

    triple: str
    passes: frozenset[str]


PLATFORMS = (
    Platform("aarch64-apple-darwin", APPLE),
    Platform("x86_64-apple-darwin", APPLE),
    Platform("x86_64-pc-windows-gnu", frozenset()),
)
# Makes the files that were asked for, empty.
STUB = """#!/bin/sh
out=
for word; do
    case $last in -o) out=$word;; esac
    case $word in *.a) out=$word;; esac
    last=$word
done
[ -z "$out" ] || : > "$out"
"""


def main() -> int:
    parser = argparse.ArgumentParser(prog="release.check_targets", description=__doc__)
    parser.add_argument("--targets", default=",".join(platform.triple for platform in PLATFORMS))
    parser.add_argument("--verbose", action="store_true", help="show the compiler's errors")
    options = parser.parse_args()
    failed = False
    with tempfile.TemporaryDirectory() as scratch:
        stub = Path(scratch) / "stub"
        stub.write_text(STUB)
        stub.chmod(0o755)
        for platform in (one for one in PLATFORMS if one.triple in options.targets.split(",")):
            subprocess.run(["rustup", "target", "add", platform.triple], check=True, capture_output=True)
            passing = [crate for crate in CRATES if check(platform.triple, crate, stub, options.verbose)]
            others = [crate for crate in CRATES if crate not in passing]
            print(f"{platform.triple}: {', '.join(passing) or 'none'}; not: {', '.join(others) or 'none'}")
            if broken := platform.passes & set(others):
                failed = True
                print(f"{platform.triple}: passed before: {', '.join(sorted(broken))}", file=sys.stderr)
    return int(failed)


def check(triple: str, crate: str, stub: Path, verbose: bool) -> bool:
    """Returns whether a crate, with all that it uses, passes the type check for a platform."""
    name = triple.replace("-", "_")
    environment = {
        **os.environ,
        f"CC_{name}": str(stub),
        f"AR_{name}": str(stub),
        "PYO3_CROSS_PYTHON_VERSION": "3.13",
    }
    command = ["cargo", "check", "--quiet", "--locked", "--target", triple, "--package", crate]
    done = subprocess.run(command, cwd=ROOT, env=environment, check=False, capture_output=True, text=True)
    if verbose and done.returncode:
        print(done.stderr, file=sys.stderr)
    return done.returncode == 0


if __name__ == "__main__":
    raise SystemExit(main())
