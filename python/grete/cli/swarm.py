"""`grete swarm app:app`."""

import sys
from typing import Any

import click

from grete.cli.loading import app_options, load
from grete.cli.options import SWARM_LOG_FORMAT, kafka_settings, set_up_logging
from grete.errors import GreteError
from grete.swarm.logs import name_lines


@click.command()
@app_options
@click.option("--nodes", metavar="N", help="Processes; one for each CPU if not said.")
@click.option("--max-rss", metavar="SIZE", help='Resident memory beyond which a node is replaced, like "500MiB".')
@click.option("--control", metavar="PATH", help='Socket for `grete ps`, or "none".')
@click.option("--probes", metavar="[HOST:]PORT", help='Where /livez, /readyz and /metrics answer, or "none".')
@click.option("--cpus", metavar="LIST", help='The CPUs of the nodes, one each: "auto", "none" or like "0-3".')
def swarm(
    target: str,
    bootstrap: str | None,
    pairs: tuple[str, ...],
    nodes: str | None,
    max_rss: str | None,
    control: str | None,
    probes: str | None,
    cpus: str | None,
    **settings: Any,
) -> None:
    """Runs an App in several processes until SIGINT or SIGTERM: `grete swarm shop.app:app --nodes 4`.

    One process, the supervisor, loads the App and forks the nodes, which share what was loaded; it replaces those that
    die, hang or grow too large. Exit status 0: stopped cleanly; 1: an error, or no node stays alive; 2: a node had to
    be stopped by force. SIGHUP restarts the nodes one by one, SIGTSTP quiets them, SIGTTIN dumps the stacks of all.
    """
    name_lines("supervisor")
    app = load(target)
    table = {"nodes": nodes, "max_rss": max_rss, "control": control, "probes": probes, "cpus": cpus}
    try:
        app.override({**settings, "swarm": table}, kafka_settings(bootstrap, pairs))
        resolved = app.settings()
        set_up_logging(resolved["log_level"], SWARM_LOG_FORMAT)
        # It opens what only Linux has; `grete swarm --help` works everywhere.
        from grete.swarm.supervisor import Supervisor

        status = Supervisor(app, resolved).run()
    except GreteError as error:
        raise click.ClickException(str(error)) from None
    sys.exit(status)
