"""Loads a native module by musl's own loader, on a machine whose Python is linked to glibc.

No interpreter for musl can be had there, so a program stands for it: it has every symbol of Python that the module
needs, and nothing else. What is left must come from musl.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

LOADERS = {"x86_64": Path("/lib/ld-musl-x86_64.so.1"), "aarch64": Path("/lib/ld-musl-aarch64.so.1")}

# Room enough for each object of Python that is referred to; functions are not called.
SYMBOL = "char {}[4096];\n"
PROGRAM = """
#include <dlfcn.h>
#include <stdio.h>
int main(int count, char **words) {
    void *module = dlopen(words[1], RTLD_NOW);
    if (!module || !dlsym(module, "PyInit__native")) {
        puts(dlerror());
        return 1;
    }
    return 0;
}
"""


def loaded_by_musl(library: Path, arch: str) -> str:
    """Returns why this machine cannot tell, or "" once musl has loaded the module with all its symbols.

    Raises SystemExit if a symbol is missing.
    """
    loader = LOADERS[arch]
    if not loader.exists():
        return f"there is no {loader} (Debian: apt-get install musl)"
    with tempfile.TemporaryDirectory() as scratch:
        source, program = Path(scratch, "python.c"), Path(scratch, "python")
        source.write_text("".join(SYMBOL.format(name) for name in symbols_of_python(library)) + PROGRAM)
        zig = [sys.executable, "-m", "ziglang", "cc", "-target", f"{arch}-linux-musl"]
        # Without optimization, zig adds checks that want more of musl than the module does.
        flags = ["-O1", "-s", "-w", "-dynamic", "-rdynamic"]
        subprocess.run([*zig, *flags, "-o", str(program), str(source)], check=True, capture_output=True)
        done = subprocess.run([loader, program, library], check=False, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"musl does not load {library.name}: {done.stdout}{done.stderr}")
    return ""


def symbols_of_python(library: Path) -> list[str]:
    """Returns the symbols that the module expects of the interpreter."""
    nm = ["nm", "--dynamic", "--undefined-only", "--format=posix", str(library)]
    lines = subprocess.run(nm, check=True, capture_output=True, text=True).stdout.splitlines()
    names = {line.split()[0].partition("@")[0] for line in lines}
    return sorted(name for name in names if name.startswith(("Py", "_Py")))
