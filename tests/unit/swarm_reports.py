"""Reports of nodes, made up."""

from grete.swarm.report import Group, Lanes, Oldest, Overdue, Report

LANES = Lanes(3, 0, 1, 0, 0)
OLDEST = Oldest("Orders.consume", "orders", 3, 12.5, overdue=False)
STEADY = Group("shop", "stable", 3.0, True, 4, 3, None)
UNSTEADY = Group("shop", "joining", 3.0, False, None, 0, None)


def overdue(seconds: float = 12.5, limit: float = 10.0) -> Overdue:
    """A job beyond its time."""
    return Overdue("Orders.consume", "orders", 3, seconds, limit)


def report(
    *,
    seq: int = 0,
    uptime: float = 0.0,
    steady: bool = True,
    stopping: bool = False,
    gil_wait: float = 0.001,
    rss: int | None = 1000,
    late: tuple[Overdue, ...] = (),
) -> Report:
    """One report, of a node that does well unless told otherwise."""
    return Report(
        seq=seq,
        uptime=uptime,
        steady=steady,
        quiet=False,
        stopping=stopping,
        gil_wait=gil_wait,
        rss=rss,
        pss=None,
        groups=(STEADY if steady else UNSTEADY,),
        lanes=LANES,
        lag=0,
        oldest=OLDEST,
        overdue=late,
        stalled=(),
        jobs=seq,
        records=seq,
        failures=0,
        dead_letters=0,
        workers=5,
        dropped=0,
    )
