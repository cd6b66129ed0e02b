"""Libraries that start native threads, and how to prevent that."""

import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType


@dataclass(frozen=True, slots=True)
class Library:
    """A library that was found. `file`: its mapped file; `remedy`: what to do."""

    name: str
    file: str
    remedy: str


def _env_remedy(name: str) -> str:
    return f"set {name}=1 in the environment before the start"


# Name, pattern of its threads' names (None: as the process), pattern of its file, remedy. Libraries that name their
# threads are recognized by thread and file, the others by their file alone. The order matters: polars has a tokio of
# its own.
_KNOWN_LIBRARIES: tuple[tuple[str, str | None, str, str], ...] = (
    (
        "polars",
        r"polars|async-executor|tokio",
        r"polars",
        "it hangs in a forked process once it was used: use it in handlers only",
    ),
    ("PyTorch", r"pt_|torch", r"libtorch", _env_remedy("OMP_NUM_THREADS")),
    ("TensorFlow", r"tf_|tensorflow", r"tensorflow", "import it in a handler"),
    ("gRPC", r"grpc|default-executo|resolver-execut|event_engine|timer_manager", r"grpc", "open channels in a handler"),
    ("a Rust library with rayon", r"rayon", r"", _env_remedy("RAYON_NUM_THREADS")),
    ("a Rust library with tokio", r"tokio", r"", _env_remedy("TOKIO_WORKER_THREADS")),
    ("OpenBLAS", None, r"openblas", _env_remedy("OPENBLAS_NUM_THREADS")),
    ("MKL", None, r"libmkl_|mkl_rt", _env_remedy("MKL_NUM_THREADS")),
    ("BLIS", None, r"libblis", _env_remedy("BLIS_NUM_THREADS")),
    ("OpenMP", None, r"libgomp|libiomp5|libomp\b", _env_remedy("OMP_NUM_THREADS")),
    ("numexpr", None, r"numexpr", _env_remedy("NUMEXPR_NUM_THREADS")),
    ("Arrow", None, r"libarrow\.", "use it in handlers only, or set OMP_NUM_THREADS=1 and ARROW_IO_THREADS=1"),
    ("DuckDB", None, r"duckdb", "open the database in a handler, or SET threads = 1"),
)

# jemalloc's own thread, in any library: jemalloc handles forks itself.
_HARMLESS_THREAD = "jemalloc_bg_thd"


def guess_owners(names: Iterable[str], maps: str | None = None) -> list[Library]:
    """Returns the libraries that may own threads of these names, by the files in `maps` (None: /proc/self/maps)."""
    files = _mapped_files(Path("/proc/self/maps").read_text(errors="replace") if maps is None else maps)
    rest = set(names)
    found = []
    for name, threads, file, cure in _KNOWN_LIBRARIES:
        mapped = _find_mapped(file, files)
        if threads is None:
            if rest and mapped:
                found.append(Library(name, mapped, cure))
        elif mine := {one for one in rest if re.match(threads, one) and (mapped or not file)}:
            rest -= mine
            found.append(Library(name, mapped or ", ".join(sorted(mine)), cure))
    return found


def is_harmless(name: str) -> bool:
    """Returns whether a thread of this name survives a fork without harm."""
    return name == _HARMLESS_THREAD


def _mapped_files(maps: str) -> list[str]:
    """Returns the mapped files with code or data, each once."""
    lines = (line.split(maxsplit=5) for line in maps.splitlines())
    return sorted({fields[5] for fields in lines if len(fields) == 6 and fields[5].startswith("/")})


def _find_mapped(pattern: str, files: list[str]) -> str:
    for file in files if pattern else ():
        path = Path(file)
        # Only the directory may name the package: numpy.libs/libscipy_openblas64_.so.
        if ".so" in path.name and re.search(pattern, f"{path.parent.name}/{path.name}", re.IGNORECASE):
            return f"{path.parent.name}/{path.name}"
    return ""


def find_confluent_clients() -> list[str]:
    """Returns the global names that hold a confluent-kafka client: "shop.producer is a Producer"."""
    found = []
    for module_name, module in list(sys.modules.items()):
        if not isinstance(module, ModuleType) or module_name.startswith("confluent_kafka"):
            continue
        for name, value in list(vars(module).items()):
            kinds = [kind for kind in type(value).__mro__ if kind.__module__ in ("cimpl", "confluent_kafka.cimpl")]
            if kinds:
                found.append(f"{module_name}.{name} is a {type(value).__name__}")
    return sorted(found)
