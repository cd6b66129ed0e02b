"""Reports of nodes, made up."""

from grete._swarm.node.report import GroupMembership, LaneCounts, OldestJob, OverdueJob, Report

LANES = LaneCounts(3, 0, 1, 0, 0, 0)
OLDEST = OldestJob("Orders.consume", "orders", 3, 12.5, overdue=False)
READY = GroupMembership("shop", "stable", 3.0, True, 4, 3, None)
NOT_READY = GroupMembership("shop", "joining", 3.0, False, None, 0, None)


def overdue(seconds: float = 12.5, limit: float = 10.0) -> OverdueJob:
    """A job beyond its time."""
    return OverdueJob("Orders.consume", "orders", 3, seconds, limit)


def report(
    *,
    seq: int = 0,
    uptime: float = 0.0,
    ready: bool = True,
    stopping: bool = False,
    gil_wait: float = 0.001,
    loop_wait: float | None = None,
    rss: int | None = 1000,
    late: tuple[OverdueJob, ...] = (),
) -> Report:
    """One report, by default of a node that does well."""
    return Report(
        seq=seq,
        uptime=uptime,
        ready=ready,
        quiet=False,
        stopping=stopping,
        gil_wait=gil_wait,
        loop_wait=loop_wait,
        rss=rss,
        pss=None,
        groups=(READY if ready else NOT_READY,),
        lanes=LANES,
        lag=0,
        oldest=OLDEST,
        overdue=late,
        stalled=(),
        failed=(),
        jobs=seq,
        records=seq,
        failures=0,
        dead_letters=0,
        workers=5,
        dropped=0,
    )
