"""What a process takes of the machine's memory, and how much of that it shares."""

from typing import TypedDict


class Memory(TypedDict):
    """Bytes. None: not to be had; `missing` says why."""

    rss: int | None
    """Resident: what of it lies in memory, shared pages in full."""
    pss: int | None
    """Proportional: shared pages count by the number of processes that share them. The sum over all is the truth."""
    shared: int | None
    """Of the resident: what at least one other process maps, too."""
    private: int | None
    """Of the resident: what nobody else maps."""
    missing: str | None


def of(pid: int) -> Memory:
    """The memory of a process of this machine. Total."""
    raise NotImplementedError(pid)
