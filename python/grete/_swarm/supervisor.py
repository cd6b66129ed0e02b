"""`grete swarm`: the process that loads the App once, and forks and watches the nodes that run it."""

import contextlib
import gc
import logging
import os
import time
from typing import TYPE_CHECKING, NoReturn

from grete import _native
from grete._config.layers import Config
from grete._plural import counted
from grete._process.node import LeaveGroupFlag, NodeContext
from grete._routing import pinning
from grete._swarm import instance_ids
from grete._swarm.commands import CommandHandler
from grete._swarm.control import server
from grete._swarm.event_loop import SupervisorLoop
from grete._swarm.housekeeping import Housekeeping
from grete._swarm.member_ids import MemberIds
from grete._swarm.net import probe_server
from grete._swarm.net.server import Server
from grete._swarm.node import cpu_affinity, file_buffers, main
from grete._swarm.node.inherited_fds import InheritedFds
from grete._swarm.node.metrics_segments import MetricsSegments
from grete._swarm.policy.limits import Limits
from grete._swarm.policy.manager import Manager
from grete._swarm.preflight import fork_safety, platform, preload
from grete._swarm.sd_notify import SystemdNotifier
from grete._swarm.status.snapshot import Status, SupervisorInfo, snapshot
from grete.instrumentation.emit import log_and_emit

if TYPE_CHECKING:
    from grete.app import App

logger = logging.getLogger("grete")


class Supervisor:
    """Runs one App in nodes, once, from the main thread of a process without other threads."""

    def __init__(self, app: "App", config: Config) -> None:
        self._app = app
        self._config = config
        self._pid = os.getpid()
        self._metrics_segments = MetricsSegments()
        self._leave_group_flag = LeaveGroupFlag()
        self._instance_ids: instance_ids.InstanceIds | None = None
        self._member_ids = MemberIds()

    def run(self) -> int:
        """Runs until all nodes have stopped. Returns 0 for a clean stop, 1 after an error, 2 if a node was killed.

        Raises GreteError for errors found before the first fork.
        """
        platform.check_platform()
        app, config = self._app, self._config
        groups = app.groups(config)
        pinning.check_any_consumer(groups, app.name)
        pinning.check_pins(groups, config)
        cpu_affinity.check_cpus(config)
        preload.preimport(app.routes, config["loop"], app._lifecycle)  # noqa: SLF001
        app.preloads.run(app.monitor)
        # After the preloads, so that threads and clients they left behind are found; before sockets are bound, so that
        # a refusal has nothing to undo.
        fork_safety.check_forkable(app.monitor)
        fork_safety.check_memory_limit(config)
        with contextlib.ExitStack() as resources:
            self._instance_ids = self._claim_instance_ids(resources)
            loop = self._open_loop(resources)
            log_and_emit(
                app.monitor,
                logger,
                logging.INFO,
                "swarm.starting",
                'App "%s": %s of supervisor %d',
                app.name,
                counted(config.swarm.nodes, "node"),
                self._pid,
                fields={"app": app.name, "nodes": config.swarm.nodes},
            )
            file_buffers.flush_before_fork()
            preload.freeze_heap()
            try:
                return loop.run()
            finally:
                # Frozen objects are never finalized: files would lose what is in their buffers.
                gc.unfreeze()

    def _open_loop(self, resources: contextlib.ExitStack) -> SupervisorLoop:
        swarm = self._config.swarm
        manager = Manager(swarm.nodes, _limits(self._config))
        notify = resources.enter_context(contextlib.closing(SystemdNotifier.from_environment()))
        housekeeping = Housekeeping(manager, notify, self._app.monitor)
        command_handler = CommandHandler(manager, housekeeping.on_command)
        info = SupervisorInfo(
            self._app.name, time.monotonic(), failed_partition_probes=self._config["failed_partition_probes"]
        )

        def status(memory: bool) -> Status:
            return snapshot(info, manager, time.monotonic(), memory=memory)

        servers: list[Server] = []
        if listening := server.open_server(
            swarm.control, self._app.name, status, command_handler.commands, self._app.monitor
        ):
            servers.append(resources.enter_context(contextlib.closing(listening)))
            info.control = listening.path
        if probing := probe_server.open_server(swarm.probes, status, self._metrics_segments, self._app.monitor):
            servers.append(resources.enter_context(contextlib.closing(probing)))
            info.probes = probing.addresses
        # Without a probe server, no client can read the metrics.
        metrics_segments = self._metrics_segments if probing else None
        return SupervisorLoop(
            manager,
            command_handler,
            self._run_child,
            pollables=servers,
            housekeeping=housekeeping,
            metrics_segments=metrics_segments,
            leave_groups_on_stop=self._leave_group_flag.set,
            instance_ids=self._instance_ids,
            on_forked=self._member_ids.on_forked,
            monitor=self._app.monitor,
        )

    def _claim_instance_ids(self, resources: contextlib.ExitStack) -> instance_ids.InstanceIds | None:
        """Makes the nodes static members, unless settings say otherwise. Returns None for dynamic members."""
        config, monitor = self._config, self._app.monitor
        if not config.swarm.static_membership or config.instance_id(0) is not None:
            return None
        try:
            found = resources.enter_context(contextlib.closing(instance_ids.claim(self._app.name)))
        except OSError as error:
            text = (
                "nodes are dynamic members of their groups, because the system offers no unique name (%s): a node "
                'that dies holds its partitions for session.timeout.ms; set "group.instance.id"'
            )
            fields: dict[str, object] = {"instance": None, "number": None}
            log_and_emit(monitor, logger, logging.WARNING, "swarm.static", text, error, fields=fields)
            return None
        other = "" if found.number == 1 else f"; it is swarm {found.number} of this App on this host"
        text = "nodes are static members, as %s to %s%s: the next process of a node has its partitions at once"
        first, last = found.for_node(0), found.for_node(config.swarm.nodes - 1)
        fields = {"instance": found.prefix, "number": found.number}
        log_and_emit(monitor, logger, logging.INFO, "swarm.static", text, first, last, other, fields=fields)
        return found

    def _run_child(self, node: int, pipe: int, inherited: InheritedFds) -> NoReturn:
        swarm = self._config.swarm
        self._metrics_segments.keep(node)
        context = NodeContext(
            node,
            swarm.nodes,
            pipe,
            swarm.report_interval,
            self._pid,
            self._metrics_segments.get(node),
            self._instance_ids.for_node(node) if self._instance_ids is not None else None,
            self._leave_group_flag,
            self._member_ids.for_process(node, os.getpid()),
        )
        main.run_child(context, self._run_node, inherited, self._app.monitor)

    def _run_node(self, context: NodeContext) -> None:
        cpu_affinity.pin_to_cpu(self._config, context.id)
        # With the settings of all nodes: a file that was edited meanwhile applies to the next swarm.
        self._app._run_node(context, self._config)  # noqa: SLF001


def _limits(config: Config) -> Limits:
    """Returns the limits for the Manager, from the swarm's settings and Kafka's."""
    swarm = config.swarm
    first, cap = swarm.restart_backoff
    kafka = {name: value for name, value, _ in _native.config_entries(config.kafka_pairs(), "consumer")}
    session = int(kafka["session.timeout.ms"]) / 1000
    static = swarm.static_membership or config.instance_id(0) is not None
    return Limits(
        max_rss=swarm.max_rss,
        gil_timeout=swarm.gil_timeout,
        report_timeout=swarm.report_timeout,
        not_ready_timeout=swarm.not_ready_timeout,
        shutdown_timeout=config["shutdown_timeout"],
        backoff_first=first,
        backoff_cap=cap,
        ready_after=swarm.ready_after,
        crash_loop_after=swarm.crash_loop_after,
        session_timeout=session,
        rebalance_timeout=int(kafka["max.poll.interval.ms"]) / 1000,
        stale_member_timeout=0.0 if static else session,
    )
