"""The peers that are not Python: built at first use into build/bench, again when their sources change."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from tests.kafka import KafkaJars

ROOT = Path(__file__).resolve().parents[2]
HERE = ROOT / "benchmarks"
OUT = Path(os.environ.get("GRETE_BENCH_BUILD") or ROOT / "build" / "bench")


def _newer(target: Path, sources: Sequence[Path]) -> bool:
    return not target.exists() or any(source.stat().st_mtime > target.stat().st_mtime for source in sources)


def run_build(command: Sequence[str | Path], what: str, cwd: Path | None = None) -> None:
    """Runs one step of a build of `what`. SystemExit has what it printed."""
    if shutil.which(str(command[0])) is None:
        raise SystemExit(f"{command[0]} is needed to build {what}: install it, or leave {what} out with --clients")
    done = subprocess.run(command, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{what} does not build:\n{done.stdout[-4000:]}")


@cache
def librdkafka() -> Path:
    """The library inside confluent-kafka's wheel: C and Python rows then measure the very same build."""
    spec = importlib.util.find_spec("confluent_kafka")
    if spec is None or spec.origin is None:
        raise SystemExit("confluent-kafka is not installed: pip install -r benchmarks/requirements.txt")
    found = sorted((Path(spec.origin).parents[1] / "confluent_kafka.libs").glob("librdkafka*.so*"))
    if not found:
        raise SystemExit("this confluent-kafka carries no librdkafka.so: install its manylinux wheel")
    return found[0]


@cache
def c_program(source: str) -> Path:
    """A C program on librdkafka; `source` is relative to benchmarks/."""
    path, headers = HERE / source, HERE / "native"
    target = OUT / "c" / path.stem
    library = librdkafka()
    if _newer(target, [path, *headers.glob("*.h"), library]):
        target.parent.mkdir(parents=True, exist_ok=True)
        flags = ["-O2", "-Wall", "-Wextra", f"-I{headers}", f"-Wl,-rpath,{library.parent}"]
        run_build(["cc", *flags, path, library, "-o", target], path.stem)
    return target


@cache
def plain_c(source: str, *flags: str) -> Path:
    """A C program on nothing but the system; with "-shared" a library to preload. `source` is in benchmarks/native."""
    path = HERE / "native" / source
    target = OUT / "c" / (path.stem + (".so" if "-shared" in flags else ""))
    if _newer(target, [path]):
        target.parent.mkdir(parents=True, exist_ok=True)
        run_build(["cc", "-O2", "-Wall", "-Wextra", "-pthread", *flags, path, "-o", target], path.stem)
    return target


@cache
def floor_program() -> Path:
    """The raw socket loop, a release build."""
    directory = HERE / "floor"
    command = ["cargo", "build", "-q", "--release", "--locked", "--target-dir", str(OUT / "floor")]
    run_build(command, "the floor", cwd=directory)
    return OUT / "floor" / "release" / "floor"


@cache
def go_program() -> Path:
    """The franz-go program."""
    target = OUT / "franz"
    run_build(["go", "build", "-o", target, "."], "franz-go", cwd=HERE / "franz")
    return target


@cache
def java_command(main: str) -> tuple[str, ...]:
    """The command that runs a class of benchmarks/java against the jars of the broker's release."""
    jars = KafkaJars().ensure()
    sources = sorted((HERE / "java").glob("*.java"))
    classes = OUT / f"java-{jars.version}"
    if _newer(classes / "Bench.class", sources):
        run_build(["javac", "-cp", jars.classpath, "-d", classes, *sources], "the Java clients")
    quiet = HERE / "java" / "log4j2.properties"
    options = ["-Xms512m", "-Xmx1g", f"-Dlog4j2.configurationFile={quiet}"]
    return ("java", *options, "-cp", f"{classes}:{jars.classpath}", main)
