"""`python -m tests.swarm.answering BODY SETTINGS`: the whole Supervisor of an App, whose nodes do what BODY says."""

from __future__ import annotations

import json
import logging
import os
import sys

import grete
from grete.swarm.context import NodeContext
from grete.swarm.supervisor import Supervisor
from tests.swarm.bodies import BODIES, say
from tests.swarm.supervised import Events


class Trivial(Supervisor):
    """Its nodes do not run the App."""

    body = "obey"

    def _run_node(self, context: NodeContext) -> None:
        say(notify=os.environ.get("NOTIFY_SOCKET"), watchdog=os.environ.get("WATCHDOG_USEC"))
        BODIES[self.body](context)


def main() -> None:
    """Runs it; the settings are the swarm's, as JSON."""
    logging.getLogger().addHandler(Events())
    logging.getLogger().setLevel(logging.INFO)
    Trivial.body = sys.argv[1]
    app = grete.App("answers", kafka={"bootstrap.servers": "127.0.0.1:1"}, swarm=json.loads(sys.argv[2]))

    @app.consumer("orders")
    def orders(message: grete.Message) -> None:
        pass

    say(supervisor=os.getpid())
    try:
        sys.exit(Trivial(app, app.settings()).run())
    except grete.ConfigError as error:
        say(refused=str(error))
        sys.exit(1)


if __name__ == "__main__":
    main()
