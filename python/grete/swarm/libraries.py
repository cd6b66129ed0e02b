"""Libraries that start threads of their own, and how they are told not to."""

import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType


@dataclass(frozen=True, slots=True)
class Library:
    """One that was found. `file` is what is mapped, `cure` what to do."""

    name: str
    file: str
    cure: str


def _variable(name: str) -> str:
    return f"set {name}=1 in the environment before the start"


# Name, what its threads are called (None: as the process is), what its file is called, what to do. Those that name
# their threads are known by that and by their file, the others by their file alone. The order counts: polars brings a
# tokio of its own.
_KNOWN: tuple[tuple[str, str | None, str, str], ...] = (
    (
        "polars",
        r"polars|async-executor|tokio",
        r"polars",
        "it hangs in a forked process once it was used: use it in handlers only",
    ),
    ("PyTorch", r"pt_|torch", r"libtorch", _variable("OMP_NUM_THREADS")),
    ("TensorFlow", r"tf_|tensorflow", r"tensorflow", "import it in a handler"),
    ("gRPC", r"grpc|default-executo|resolver-execut|event_engine|timer_manager", r"grpc", "open channels in a handler"),
    ("a Rust library with rayon", r"rayon", r"", _variable("RAYON_NUM_THREADS")),
    ("a Rust library with tokio", r"tokio", r"", _variable("TOKIO_WORKER_THREADS")),
    ("OpenBLAS", None, r"openblas", _variable("OPENBLAS_NUM_THREADS")),
    ("MKL", None, r"libmkl_|mkl_rt", _variable("MKL_NUM_THREADS")),
    ("BLIS", None, r"libblis", _variable("BLIS_NUM_THREADS")),
    ("OpenMP", None, r"libgomp|libiomp5|libomp\b", _variable("OMP_NUM_THREADS")),
    ("numexpr", None, r"numexpr", _variable("NUMEXPR_NUM_THREADS")),
    ("Arrow", None, r"libarrow\.", "use it in handlers only, or set OMP_NUM_THREADS=1 and ARROW_IO_THREADS=1"),
    ("DuckDB", None, r"duckdb", "open the database in a handler, or SET threads = 1"),
)

# jemalloc's own thread, of whichever library: it takes care of a fork itself.
_HARMLESS = "jemalloc_bg_thd"


def likely(names: Iterable[str], maps: str | None = None) -> list[Library]:
    """Whose threads with these names may be, by what is mapped into this process (`maps`: /proc/self/maps)."""
    files = _mapped(Path("/proc/self/maps").read_text(errors="replace") if maps is None else maps)
    rest = set(names)
    found = []
    for name, threads, file, cure in _KNOWN:
        mapped = _first(file, files)
        if threads is None:
            if rest and mapped:
                found.append(Library(name, mapped, cure))
        elif mine := {one for one in rest if re.match(threads, one) and (mapped or not file)}:
            rest -= mine
            found.append(Library(name, mapped or ", ".join(sorted(mine)), cure))
    return found


def is_harmless(name: str) -> bool:
    """Whether a thread of this name is no cause for concern."""
    return name == _HARMLESS


def _mapped(maps: str) -> list[str]:
    """The files with code or data, each once."""
    lines = (line.split(maxsplit=5) for line in maps.splitlines())
    return sorted({fields[5] for fields in lines if len(fields) == 6 and fields[5].startswith("/")})


def _first(pattern: str, files: list[str]) -> str:
    for file in files if pattern else ():
        path = Path(file)
        # Which package a file belongs to may only be in its directory: numpy.libs/libscipy_openblas64_.so.
        if ".so" in path.name and re.search(pattern, f"{path.parent.name}/{path.name}", re.IGNORECASE):
            return f"{path.parent.name}/{path.name}"
    return ""


def confluent_clients() -> list[str]:
    """Which global names hold a confluent-kafka client: "shop.producer is a Producer"."""
    found = []
    for module_name, module in list(sys.modules.items()):
        if not isinstance(module, ModuleType) or module_name.startswith("confluent_kafka"):
            continue
        for name, value in list(vars(module).items()):
            kinds = [kind for kind in type(value).__mro__ if kind.__module__ in ("cimpl", "confluent_kafka.cimpl")]
            if kinds:
                found.append(f"{module_name}.{name} is a {type(value).__name__}")
    return sorted(found)
