"""`python -m tests.swarm.supervisor_process BODY SETTINGS`: the whole Supervisor of an App, whose nodes run BODY."""

from __future__ import annotations

import json
import logging
import os
import sys

import grete
from grete._process.node import NodeContext
from grete._swarm.supervisor import Supervisor
from tests.swarm.loop_process import Events
from tests.swarm.node_bodies import BODIES, say


class TrivialSupervisor(Supervisor):
    """Its nodes do not run the App."""

    body = "obey"

    def _run_node(self, context: NodeContext) -> None:
        say(notify=os.environ.get("NOTIFY_SOCKET"), watchdog=os.environ.get("WATCHDOG_USEC"))
        BODIES[self.body](context)


def main() -> None:
    """Runs it; the settings are the swarm's, as JSON."""
    logging.getLogger().addHandler(Events())
    logging.getLogger().setLevel(logging.INFO)
    TrivialSupervisor.body = sys.argv[1]
    app = grete.App("answers", kafka={"bootstrap.servers": "127.0.0.1:1"}, swarm=json.loads(sys.argv[2]))

    @app.consumer("orders")
    def orders(message: grete.Message) -> None:
        pass

    say(supervisor=os.getpid())
    try:
        sys.exit(TrivialSupervisor(app, app.settings()).run())
    except grete.ConfigError as error:
        say(refused=str(error))
        sys.exit(1)


if __name__ == "__main__":
    main()
