"""`grete swarm`: the process that loads the App once, and forks and watches the nodes that run it."""

import logging
import os
from typing import TYPE_CHECKING, NoReturn

from grete.config import Config
from grete.swarm import child
from grete.swarm.context import NodeContext
from grete.swarm.inherit import Inherited
from grete.swarm.limits import Limits
from grete.swarm.loop import Loop
from grete.swarm.manager import Manager
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

    def run(self) -> int:
        """Until all nodes have stopped: 0 cleanly, 1 for an error, 2 if one was stopped by force.

        Raises GreteError, with nothing forked, for what is wrong before.
        """
        app, config = self._app, self._config
        app.groups(config)
        manager = Manager(config.swarm.nodes, _limits(config))
        wishes = Wishes(manager)
        loop = Loop(manager, wishes, self._live)
        logger.info(
            'App "%s": %d nodes of supervisor %d',
            app.name,
            config.swarm.nodes,
            self._pid,
            extra={"event": "swarm.starting", "nodes": config.swarm.nodes},
        )
        status = loop.run()
        logger.info('App "%s": all nodes have stopped', app.name, extra={"event": "swarm.stopped", "status": status})
        return status

    def _live(self, node: int, pipe: int, inherited: Inherited) -> NoReturn:
        swarm = self._config.swarm
        context = NodeContext(node, swarm.nodes, pipe, swarm.report_interval, self._pid)
        child.live(context, self._run_node, inherited)

    def _run_node(self, context: NodeContext) -> None:
        # With the settings that all nodes have: a file that was edited meanwhile is for the next swarm.
        self._app._run_node(context, self._config)  # noqa: SLF001


def _limits(config: Config) -> Limits:
    swarm = config.swarm
    first, cap = swarm.restart_backoff
    return Limits(
        max_rss=swarm.max_rss,
        gil_timeout=swarm.gil_timeout,
        report_timeout=swarm.report_timeout,
        unsteady_timeout=swarm.unsteady_timeout,
        shutdown_timeout=config["shutdown_timeout"],
        backoff_first=first,
        backoff_cap=cap,
        steady_after=swarm.steady_after,
        crash_loop_after=swarm.crash_loop_after,
    )
