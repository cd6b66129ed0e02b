"""`grete swarm`: the process that loads the App once, and forks and watches the nodes that run it."""

import contextlib
import gc
import logging
import os
import time
from typing import TYPE_CHECKING, NoReturn

from grete.config import Config
from grete.instrumentation.telling import tell
from grete.swarm import child, control, cpus, files, headroom, imports, pins, preload, probes, threads
from grete.swarm.boards import Boards
from grete.swarm.chores import Chores
from grete.swarm.context import NodeContext
from grete.swarm.inherit import Inherited
from grete.swarm.loop import Loop
from grete.swarm.manager import Manager
from grete.swarm.notify import Notify
from grete.swarm.server import Server
from grete.swarm.status import About, Status, snapshot
from grete.swarm.wishes import Wishes

if TYPE_CHECKING:
    from grete.app import App

logger = logging.getLogger("grete")


class Supervisor:
    """Runs one App in nodes, from the main thread of a process without other threads. Once."""

    def __init__(self, app: "App", config: Config) -> None:
        self._app = app
        self._config = config
        self._pid = os.getpid()
        self._boards = Boards()

    def run(self) -> int:
        """Until all nodes have stopped: 0 cleanly, 1 for an error, 2 if one was stopped by force.

        Raises GreteError, with nothing forked, for what is wrong before.
        """
        app, config = self._app, self._config
        groups = app.groups(config)
        pins.check_some(groups, app.name)
        pins.check(groups, config)
        cpus.check(config)
        imports.ahead(app.routes, config["loop"])
        app.preloads.run(app.monitor)
        # After it and before sockets are bound: what a preload has left behind is refused, and nothing is to be undone.
        threads.check(app.monitor)
        headroom.check(config)
        with contextlib.ExitStack() as opened:
            loop = self._prepare(opened)
            tell(
                app.monitor,
                logger,
                logging.INFO,
                "swarm.starting",
                'App "%s": %d nodes of supervisor %d',
                app.name,
                config.swarm.nodes,
                self._pid,
                fields={"app": app.name, "nodes": config.swarm.nodes},
            )
            files.flush_before_fork()
            preload.freeze()
            try:
                return loop.run()
            finally:
                # Objects that stay frozen are never taken down: files would lose what is in their buffers.
                gc.unfreeze()

    def _prepare(self, opened: contextlib.ExitStack) -> Loop:
        swarm = self._config.swarm
        manager = Manager(swarm.nodes, swarm.limits(self._config))
        notify = opened.enter_context(contextlib.closing(Notify.from_environment()))
        chores = Chores(manager, notify, self._app.monitor)
        wishes = Wishes(manager, chores.wished)
        about = About(self._app.name, time.monotonic())

        def status(memory: bool) -> Status:
            return snapshot(about, manager, time.monotonic(), memory=memory)

        servers: list[Server] = []
        if listening := control.open_server(swarm.control, self._app.name, status, wishes.commands, self._app.monitor):
            servers.append(opened.enter_context(contextlib.closing(listening)))
            about.control = listening.path
        if probing := probes.open_server(swarm.probes, status, self._boards, self._app.monitor):
            servers.append(opened.enter_context(contextlib.closing(probing)))
            about.probes = probing.addresses
        # Nobody reads them where nobody can ask.
        boards = self._boards if probing else None
        return Loop(
            manager, wishes, self._live, pollables=servers, chores=chores, boards=boards, monitor=self._app.monitor
        )

    def _live(self, node: int, pipe: int, inherited: Inherited) -> NoReturn:
        swarm = self._config.swarm
        self._boards.keep(node)
        context = NodeContext(node, swarm.nodes, pipe, swarm.report_interval, self._pid, self._boards.of(node))
        child.live(context, self._run_node, inherited, self._app.monitor)

    def _run_node(self, context: NodeContext) -> None:
        cpus.apply(self._config, context.id)
        # With the settings that all nodes have: a file that was edited meanwhile is for the next swarm.
        self._app._run_node(context, self._config)  # noqa: SLF001
