"""Platforms and interpreters of the wheels."""

from __future__ import annotations

import platform
import sys
from dataclasses import dataclass

# CPython versions with a wheel each: the package is built without the limited API (docs/adr/0005).
PYTHONS = ("3.11", "3.12", "3.13", "3.14")


@dataclass(frozen=True)
class Target:
    """One platform.

    Attributes:
        triple: Rust's name of it.
        tag: platform tag that maturin checks the library against.
        blocked: why no wheel can be built from Linux; "": it can.
    """

    name: str
    triple: str
    tag: str
    blocked: str = ""

    @property
    def arch(self) -> str:
        return self.triple.split("-")[0]

    @property
    def runs_here(self) -> bool:
        """Whether a Python of this machine can import such a wheel."""
        return self._for_this_kernel and self.triple.endswith("-gnu")

    @property
    def loads_here(self) -> bool:
        """Whether musl's loader can load such a wheel, for want of a Python that is linked to musl."""
        return self._for_this_kernel and self.triple.endswith("-musl")

    @property
    def _for_this_kernel(self) -> bool:
        return sys.platform == "linux" and self.arch == platform.machine()


_NO_SDK = "the trust store needs Apple's SDK to be linked, and no run on macOS has shown that the client works"
_NO_DESCRIPTORS = "the client is built on Unix descriptors"
_targets = (
    Target("manylinux-x86_64", "x86_64-unknown-linux-gnu", "manylinux2014"),
    Target("manylinux-aarch64", "aarch64-unknown-linux-gnu", "manylinux2014"),
    Target("musllinux-x86_64", "x86_64-unknown-linux-musl", "musllinux_1_2"),
    Target("musllinux-aarch64", "aarch64-unknown-linux-musl", "musllinux_1_2"),
    Target("macos-arm64", "aarch64-apple-darwin", "macosx_11_0", _NO_SDK),
    Target("macos-x86_64", "x86_64-apple-darwin", "macosx_10_12", _NO_SDK),
    Target("windows-x86_64", "x86_64-pc-windows-msvc", "win_amd64", _NO_DESCRIPTORS),
)
TARGETS = {target.name: target for target in _targets}
