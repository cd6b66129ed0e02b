"""python -m release.wheels: wheels for all platforms that this machine can build for, in build/wheels.

The libraries are linked against an old glibc, or musl, by zig. Debug symbols go to build/wheels/debug, beside each
wheel; `gdb` and `perf` find them by the link that stays in the library. A wheel has the licences of the linked crates
and an SBOM. Times and paths of the building machine are left out, so that builds of one commit can be compared.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from .licenses import ROOT, third_party_licenses
from .musl import loaded_by_musl
from .targets import PYTHONS, TARGETS, Target

OUT = ROOT / "build" / "wheels"
# auditwheel's names of what has two.
TAG_VERSIONS = {"manylinux2014": "manylinux_2_17"}
LIMIT = 6_000_000  # bytes of a wheel: users download it in each image build


def main() -> int:
    """Exit status 1 if a wheel is missing, too large, or does not run."""
    parser = argparse.ArgumentParser(prog="release.wheels", description=__doc__)
    parser.add_argument("--targets", default=",".join(TARGETS), help=f"of {', '.join(TARGETS)}")
    parser.add_argument("--pythons", default=",".join(PYTHONS))
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args()
    unknown = set(options.targets.split(",")) - set(TARGETS)
    if unknown:
        parser.error(f"unknown target {min(unknown)}: choose from {', '.join(TARGETS)}")
    failed, rows = False, []
    for target in (TARGETS[name] for name in options.targets.split(",")):
        if target.blocked:
            rows.append(f"{target.name}: not built: {target.blocked}")
            continue
        run(["rustup", "target", "add", target.triple])
        for python in options.pythons.split(","):
            wheel = build(target, python, options.out)
            size = wheel.stat().st_size
            failed |= size > LIMIT
            rows.append(f"{wheel.name}: {size / 1e6:.2f} MB, {audit(wheel, target)}; {smoke(wheel, target, python)}")
    print("\n".join(rows))
    return int(failed)


def build(target: Target, python: str, out: Path) -> Path:
    """Builds one wheel, moves its debug symbols to a file of their own, and adds the licences. Returns its path."""
    out.mkdir(parents=True, exist_ok=True)
    environment = {**os.environ, "SOURCE_DATE_EPOCH": commit_time(), **paths_remapped()}
    with tempfile.TemporaryDirectory(dir=out) as scratch:
        command = [tool("maturin"), "build", "--release", "--locked", "--zig", "--target", target.triple]
        command += ["--compatibility", target.tag, "--interpreter", f"python{python}", "--out", scratch]
        run(command, environment)
        (raw,) = Path(scratch).glob("*.whl")
        run([tool("wheel"), "unpack", "--dest", scratch, str(raw)], environment)
        (tree,) = (path for path in Path(scratch).iterdir() if path.is_dir())
        (library,) = (tree / "grete").glob("_native*.so")
        debug = out / "debug" / f"{raw.stem}.debug"
        debug.parent.mkdir(exist_ok=True)
        separate_debug_symbols(library, debug)
        (information,) = tree.glob("*.dist-info")
        (information / "licenses" / "THIRD-PARTY.txt").write_text(third_party_licenses(target.triple))
        for sbom in (information / "sboms").glob("*.json"):
            settle_sbom(sbom)
        run([tool("wheel"), "pack", "--dest-dir", str(out), str(tree)], environment)
        return out / raw.name


def separate_debug_symbols(library: Path, debug: Path) -> None:
    """Leaves in the library what the dynamic linker needs, and a link to `debug`, which gets the rest."""
    objcopy = llvm_objcopy()
    run([objcopy, "--only-keep-debug", str(library), str(debug)])
    run([objcopy, "--strip-unneeded", f"--add-gnu-debuglink={debug}", str(library)])


def llvm_objcopy() -> str:
    """Returns the path of rustc's own objcopy, which knows all architectures; installs the component if necessary."""
    run(["rustup", "component", "add", "llvm-tools"])
    sysroot = Path(run(["rustc", "--print", "sysroot"]).strip())
    (found,) = sysroot.glob("lib/rustlib/*/bin/llvm-objcopy")
    return str(found)


def settle_sbom(path: Path) -> None:
    """Removes from an SBOM what differs between two builds of the same commit: serial number, time, local paths."""
    text = path.read_text().replace(ROOT.as_uri(), "file:///grete").replace(str(ROOT), "/grete")
    bill = json.loads(text)
    bill.pop("serialNumber", None)
    bill["metadata"].pop("timestamp", None)
    path.write_text(json.dumps(bill, indent=1) + "\n")


def paths_remapped() -> dict[str, str]:
    """Returns the flags that keep this machine's directories out of panic messages and debug symbols."""
    cargo = os.environ.get("CARGO_HOME", str(Path.home() / ".cargo"))
    places = {str(ROOT): "/grete", cargo: "/cargo"}
    rust = " ".join(f"--remap-path-prefix={place}={name}" for place, name in places.items())
    c = " ".join(f"-ffile-prefix-map={place}={name}" for place, name in places.items())
    return {"RUSTFLAGS": f"{os.environ.get('RUSTFLAGS', '')} {rust}".strip(), "CFLAGS": c}


def commit_time() -> str:
    """Returns the time of the last commit, in seconds since 1970, which all files of a wheel get."""
    return run(["git", "-C", str(ROOT), "log", "-1", "--format=%ct"]).strip() or "315532800"


def audit(wheel: Path, target: Target) -> str:
    """Returns what auditwheel finds. Raises SystemExit if the library is not worth the tag that we promise.

    auditwheel resolves musl's only library on machines with musl alone; elsewhere this function asks for no other one.
    """
    found = json.loads(run([tool("auditwheel"), "show", "--json", str(wheel)]))
    if target.triple.endswith("-musl"):
        good, text = set(found["external_libs"]) <= {"libc.so"}, "needs libc.so alone"
    else:
        good, text = found["overall_tag"].startswith(TAG_VERSIONS[target.tag]), found["overall_tag"]
    if not good:
        raise SystemExit(f"{wheel.name} is not worth its tag: {found}")
    return f"auditwheel: {text}"


def smoke(wheel: Path, target: Target, python: str) -> str:
    """Installs the wheel in an empty environment of its Python, and runs `grete demo` to its summary.

    The module of a wheel for musl is only loaded, by musl's loader.
    """
    interpreter = shutil.which(f"python{python}")
    if target.loads_here:
        with tempfile.TemporaryDirectory() as scratch, zipfile.ZipFile(wheel) as packed:
            (name,) = (name for name in packed.namelist() if name.endswith(".so"))
            reason = loaded_by_musl(Path(packed.extract(name, scratch)), target.arch)
        return f"not loaded: {reason}" if reason else "loaded by musl"
    if not target.runs_here:
        return "not run: another platform"
    if interpreter is None:
        return f"not run: there is no python{python}"
    with tempfile.TemporaryDirectory() as scratch:
        run([interpreter, "-m", "venv", scratch])
        run([f"{scratch}/bin/pip", "install", "-q", str(wheel)])
        run([f"{scratch}/bin/grete", "demo"])
    return "grete demo passed"


def tool(name: str) -> str:
    """Returns the command of a tool that is installed beside this interpreter."""
    return str(Path(sys.executable).parent / name)


def run(command: list[str], environment: dict[str, str] | None = None) -> str:
    """Runs a command and returns its output. Raises SystemExit with all that it said if it fails."""
    print("+", " ".join(command), file=sys.stderr)
    path = {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(
        command, cwd=ROOT, env={**(environment or os.environ), **path}, check=False, capture_output=True, text=True
    )
    if done.returncode:
        raise SystemExit(f"{command[0]} failed with status {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


if __name__ == "__main__":
    raise SystemExit(main())
