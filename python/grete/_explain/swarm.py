"""Events of the swarm, of statistics and of listeners."""

from collections.abc import Mapping

from grete._explain.entry import Entry

SWARM: Mapping[str, Entry] = {
    "swarm.not_ready": Entry(
        "No node has been a stable member of its groups for `not_ready_timeout`.",
        "See whether brokers are reachable: `grete doctor APP`. Nodes are not restarted, because that would not help.",
        "no node of 4 nodes has been ready for 300.0 s; is Kafka reachable? Nodes are not restarted, because that "
        "would not help",
    ),
    "swarm.supervisor_stalled": Entry(
        "The supervisor did not run: SIGSTOP, a suspended machine, or a CPU limit.",
        "Remove the CPU limit of the container. Timeouts of the nodes were extended.",
        "the supervisor was paused for up to 12.0 s (SIGSTOP or system suspend); report timeouts of the nodes are "
        "extended by that time",
    ),
    "swarm.restart_failed": Entry(
        "A rolling restart was given up, because a new node did not become ready, or it was not possible at all.",
        "See the log of the node that the line names. Nodes that were not replaced run the old code.",
        "the rolling restart is aborted: it has waited 300 s for node 2 (starting) to be ready; not replaced: node 3",
    ),
    "swarm.crash_loop": Entry(
        "A node died several times soon after its start.",
        "Read the `swarm.node.died` lines before: the same exception in each means a defect of the App, SIGSEGV a "
        "C library, SIGKILL too little memory.",
        "node 2 is in a crash loop: 5 early deaths in a row, the last one: exit status 1; it is started again all "
        "the same",
    ),
    "swarm.given_up": Entry(
        "Every node is in a crash loop, so the swarm ends with status 1.",
        "As for `swarm.crash_loop`. The service manager may start the swarm again.",
        "every node is in a crash loop: the swarm gives up and ends with status 1",
    ),
    "swarm.stop_expedited": Entry(
        "SIGINT arrived twice (Ctrl-C). Handlers that still run are given up.",
        "Nothing: their records will be processed again.",
        "second request to stop: handlers are not waited for, and nodes alive after 5 s are killed",
    ),
    "swarm.stopped": Entry(
        "ERROR: the swarm ended with another status than 0, because nodes had to be killed or were given up.",
        "Read the lines before. docs/swarm.md lists the exit statuses.",
        "all nodes have ended; the swarm exits with status 1",
    ),
    "swarm.node.fork_failed": Entry(
        "The machine or the container has no memory or no process left for a node.",
        "Raise the memory limit, `pids.max` or `ulimit -u`, or run fewer nodes.",
        "node 2 could not be forked: [Errno 11] Resource temporarily unavailable; the machine or the container "
        "lacks memory or processes (pids.max, ulimit -u); it is forked again in 1 s",
    ),
    "swarm.node.stopping": Entry(
        "WARNING: a node broke a limit: its memory, a held GIL, a hung handler, or missing reports. It is replaced.",
        "Read the reason. `memory`: raise `max_rss` or find the leak. `handler`: see `consumer.timeout`. `gil`: C "
        "code that does not release it.",
        "node 2 (pid 4711) uses 612.0 MiB, more than max_rss (500.0 MiB); it is asked to stop and will be replaced",
    ),
    "swarm.node.killing": Entry(
        "A node did not stop in time after SIGTERM, and gets SIGKILL.",
        "Make handlers faster than `shutdown_timeout`. Their records are processed again.",
        "node 2 (pid 4711) did not stop within 35.0 s (memory); it is killed",
    ),
    "swarm.node.unkillable": Entry(
        "The kernel cannot end the process, most often because it waits for a disk or a network file system.",
        "See `/proc/PID/stack`, and repair the file system. The supervisor waits: two processes of one node must "
        "not run.",
        "node 2 (pid 4711) is still alive 10.0 s after SIGKILL: the kernel cannot end it, most often because of a "
        "wait for a disk or a network file system; see /proc/4711/stack",
    ),
    "swarm.node.died": Entry(
        "The process of a node ended without a request. SIGKILL without the supervisor: most often the OOM killer.",
        "SIGKILL: set `max_rss` below the limit of the container. SIGSEGV: a C library; see the lines before. A "
        "status: the node's own log has the traceback.",
        "node 2 (pid 4711) was killed by SIGKILL, not by the supervisor: by the kernel's OOM killer, or by hand; "
        "its last report said 1,948.2 MiB, after 93.1 s; it is forked again now",
    ),
    "swarm.static": Entry(
        "WARNING: the system offers no unique name for this swarm, so nodes are dynamic members: each restart "
        "rebalances.",
        "Set `group.instance.id`, as docs/static-membership.md describes, or `static_membership=False` to accept it.",
        "nodes are dynamic members of their groups, because the system offers no unique name",
    ),
    "swarm.native_threads": Entry(
        "A library started native threads before the fork. A lock that they hold stays locked in each node.",
        "Import or start the library in `@app.on_startup`, which runs in the nodes.",
        "2 native threads run before the fork, started by libraries: forked nodes may deadlock",
    ),
    "swarm.node.failed": Entry(
        "An exception ended a node. The traceback is below the line.",
        "Correct the App, or what it needs. The node is started again.",
        "node-2 has ended",
    ),
    "swarm.request.failed": Entry(
        "The supervisor could not answer a request of the probes or of the control socket.",
        "Please report the traceback: it is a defect of Grete. The swarm goes on.",
        "no answer to GET /metrics",
    ),
    "swarm.notify.failed": Entry(
        "`NOTIFY_SOCKET` is set, and systemd cannot be notified there.",
        "Set `NotifyAccess=main` in the unit, or unset the variable in a container.",
        "NOTIFY_SOCKET is 'systemd', neither a path nor an abstract socket; the service manager is not notified",
    ),
    "swarm.failed": Entry(
        "The supervisor itself failed, and killed all nodes.",
        "Please report the traceback: it is a defect of Grete. The service manager starts the swarm again.",
        "the supervisor failed; all nodes are killed",
    ),
    "dogstatsd.dropped": Entry(
        "Datagrams for the Datadog agent were dropped: it does not run, or its buffer is full.",
        "Start the agent, or correct `DD_AGENT_HOST`. Handlers do not wait for it.",
        "the agent at 127.0.0.1:8125 does not accept all metrics; dropped datagrams: refused 12",
    ),
    "listener.failed": Entry(
        "A listener of `app.monitor` raised an exception. Other listeners and the App go on.",
        "Correct the listener; the traceback shows the place.",
        "the listener shop.count of job.finished raised; the others were still called",
    ),
}
