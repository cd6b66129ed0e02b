"""python -m release.sdist: a source distribution, and beside it one with all crates, which builds without a network."""

from __future__ import annotations

import argparse
import gzip
import hashlib
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
    parser.add_argument(
        "--check", action="store_true", help="make both again and compare; build the one with crates, without a network"
    )
    options = parser.parse_args()
    shutil.rmtree(OUT, ignore_errors=True)
    made = make(OUT)
    for path in made:
        print(f"{path.name}: {path.stat().st_size / 1e6:.1f} MB, sha256 {digest(path)}")
    if options.check:
        with tempfile.TemporaryDirectory() as scratch:
            again = make(Path(scratch))
            if [digest(path) for path in again] != [digest(path) for path in made]:
                raise SystemExit("two source distributions of one commit differ")
        print("made twice: the same bytes")
        print(f"built without a network: {build_offline(made[1]).name}")


def make(out: Path) -> tuple[Path, Path]:
    """Writes both archives, and returns their paths: without the crates, and with them."""
    run([tool("maturin"), "sdist", "--out", str(out)], {**os.environ, "SOURCE_DATE_EPOCH": commit_time()})
    (plain,) = out.glob("*.tar.gz")
    return plain, add_crates(plain)


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


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
        pack(tree, vendored, int(commit_time()))
    return vendored


def pack(tree: Path, archive: Path, seconds: int) -> None:
    """Packs a folder, so that the same files make the same bytes: in order, of one time, without owners and umask."""

    def settle(member: tarfile.TarInfo) -> tarfile.TarInfo:
        member.mtime, member.uid, member.gid, member.uname, member.gname = seconds, 0, 0, "", ""
        member.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
        return member

    # The name in the header of gzip would be that of the file.
    with (
        archive.open("wb") as file,
        gzip.GzipFile(filename="", fileobj=file, mode="wb", mtime=seconds) as packed,
        tarfile.open(fileobj=packed, mode="w") as tar,
    ):
        tar.add(tree, tree.name, filter=settle)  # in the order of names


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
