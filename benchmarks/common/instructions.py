"""How many instructions a thread has run: a figure that hardly depends on what else the machine does."""

from __future__ import annotations

import ctypes
import os
import platform
import struct

# perf_event_open(2), by machine.
_CALLS = {"x86_64": 298, "aarch64": 241}
_INSTRUCTIONS = 1  # PERF_COUNT_HW_INSTRUCTIONS of PERF_TYPE_HARDWARE, which is 0
_USER_ONLY = 1 << 5 | 1 << 6  # without the kernel's and a hypervisor's
_SIZE = 112


class Instructions:
    """Counts those of the calling thread, outside of the kernel. None where the machine or the system counts none."""

    def __init__(self) -> None:
        self._file = _open()

    def __bool__(self) -> bool:
        return self._file >= 0

    def read(self) -> int | None:
        """Since this was made."""
        return None if self._file < 0 else int.from_bytes(os.read(self._file, 8), "little")

    def close(self) -> None:
        """Counts no more."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def _open() -> int:
    if (call := _CALLS.get(platform.machine())) is None:
        return -1
    wanted = bytearray(_SIZE)
    struct.pack_into("=IIQ", wanted, 0, 0, _SIZE, _INSTRUCTIONS)
    struct.pack_into("=Q", wanted, 40, _USER_ONLY)
    buffer = (ctypes.c_char * _SIZE).from_buffer(wanted)
    # This thread, on any core, in no group.
    return int(ctypes.CDLL(None).syscall(call, buffer, 0, -1, -1, 0))
