"""Command `grete swarm app:app`."""

import sys
from typing import Any

import click

from grete._cli.app_loader import app_options, load_app
from grete._cli.options import kafka_settings, set_up_logging
from grete._cli.terminal import output
from grete._process.node import set_node_name
from grete.errors import GreteError
from grete.instrumentation._logging.default_handler import SWARM_LOG_FORMAT

# Options of the table `swarm`; the others are the App's.
_SWARM_OPTIONS = ("nodes", "max_rss", "control", "probes", "cpus", "static_membership")


@click.command()
@app_options
@click.option("--nodes", metavar="N", help="Processes; one for each CPU if not said.")
@click.option("--max-rss", metavar="SIZE", help='Resident memory beyond which a node is replaced, like "500MiB".')
@click.option("--control", metavar="PATH", help='Socket for `grete ps`, or "none".')
@click.option("--probes", metavar="[HOST:]PORT", help='Where /livez, /readyz and /metrics answer, or "none".')
@click.option("--cpus", metavar="LIST", help='The CPUs of the nodes, one each: "auto", "none" or like "0-3".')
@click.option(
    "--static-membership/--no-static-membership",
    default=None,
    help="Whether nodes are static members of their groups; they are if not said.",
)
def swarm(target: str, bootstrap: str | None, pairs: tuple[str, ...], **settings: Any) -> None:
    """Runs an App in several processes until SIGINT or SIGTERM: `grete swarm shop.app:app --nodes 4`.

    One process, the supervisor, loads the App and forks the nodes, which share the loaded data. It replaces nodes that
    die, hang or grow too large. Exit status 0: stopped cleanly; 1: an error, or no node stays alive; 2: a node had to
    be stopped by force. SIGHUP restarts the nodes one by one, SIGTSTP quiets them, SIGTTIN dumps the stacks of all.
    """
    output.restore_stdout()
    set_node_name("supervisor")
    app = load_app(target)
    table = {name: settings.pop(name) for name in _SWARM_OPTIONS}
    try:
        app.override({**settings, "swarm": table}, kafka_settings(bootstrap, pairs))
        resolved = app.settings()
        set_up_logging(resolved["log_level"], SWARM_LOG_FORMAT)
        # The supervisor needs Linux; `grete swarm --help` works everywhere.
        from grete._swarm.supervisor import Supervisor

        status = Supervisor(app, resolved).run()
    except GreteError as error:
        raise click.ClickException(str(error)) from None
    sys.exit(status)
