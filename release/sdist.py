"""python -m release.sdist: a source distribution, and beside it one with all crates, which builds without a network."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tarfile
import tempfile
from pathlib import Path

from .licenses import ROOT
from .wheels import commit_time, run, tool

OUT = ROOT / "build" / "sdist"
# What tells cargo to look for crates in the folder `vendor` alone.
VENDORED = """
[source.crates-io]
replace-with = "vendored-sources"

[source.vendored-sources]
directory = "vendor"
"""


def main() -> None:
    parser = argparse.ArgumentParser(prog="release.sdist", description=__doc__)
    parser.add_argument("--check", action="store_true", help="build the one with crates, without a network")
    options = parser.parse_args()
    shutil.rmtree(OUT, ignore_errors=True)
    run([tool("maturin"), "sdist", "--out", str(OUT)], {**os.environ, "SOURCE_DATE_EPOCH": commit_time()})
    (plain,) = OUT.glob("*.tar.gz")
    vendored = add_crates(plain)
    for path in (plain, vendored):
        print(f"{path.name}: {path.stat().st_size / 1e6:.1f} MB")
    if options.check:
        print(f"built without a network: {build_offline(vendored).name}")


def add_crates(plain: Path) -> Path:
    """Writes the archive that also has the sources of all crates, and returns its path."""
    with tempfile.TemporaryDirectory() as scratch:
        tree = unpack(plain, Path(scratch))
        run(
            [
                "cargo",
                "vendor",
                "--locked",
                "--quiet",
                "--manifest-path",
                str(tree / "Cargo.toml"),
                str(tree / "vendor"),
            ]
        )
        with (tree / ".cargo" / "config.toml").open("a") as file:
            file.write(VENDORED)
        vendored = plain.with_name(plain.name.removesuffix(".tar.gz") + "-vendored.tar.gz")
        with tarfile.open(vendored, "w:gz") as archive:
            archive.add(tree, tree.name)
    return vendored


def build_offline(vendored: Path) -> Path:
    """Builds a wheel from the archive in a network namespace that has no interfaces, and returns its path."""
    with tempfile.TemporaryDirectory() as scratch:
        tree = unpack(vendored, Path(scratch))
        command = [
            "unshare",
            "--map-root-user",
            "--net",
            sys.executable,
            "-m",
            "pip",
            "wheel",
            "--no-deps",
            "--no-index",
        ]
        environment = {**os.environ, "CARGO_TARGET_DIR": f"{scratch}/target"}
        run([*command, "--no-build-isolation", "--wheel-dir", str(OUT), str(tree)], environment)
    (wheel,) = OUT.glob("*.whl")
    return wheel


def unpack(archive: Path, directory: Path) -> Path:
    """Unpacks an archive and returns its only folder."""
    with tarfile.open(archive) as file:
        file.extractall(directory, filter="data")
    (tree,) = directory.iterdir()
    return tree


if __name__ == "__main__":
    main()
