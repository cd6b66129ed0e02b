"""`grete run app:app`."""

from typing import Any

import click

from grete.cli.loading import app_options, load
from grete.cli.options import kafka_settings, set_up_logging
from grete.errors import GreteError
from grete.swarm.logs import name_lines


@click.command()
@app_options
@click.option("--probes", metavar="[HOST:]PORT", help='Where /livez, /readyz and /metrics answer, or "none".')
def run(target: str, bootstrap: str | None, pairs: tuple[str, ...], **settings: Any) -> None:
    """Runs an App until SIGINT or SIGTERM: `grete run shop.app:app`.

    Then jobs in flight end, offsets are committed, the groups are left. Exit status 0: stopped cleanly; 1: an error
    ended it; 2: the stop was forced, by --shutdown-timeout or a second SIGINT, and what other handlers had done was
    committed all the same. SIGTSTP quiets: what runs goes on, and no more records are handed out. SIGTTIN dumps the
    stacks of all threads.
    """
    name_lines("-")  # an App whose own format shows the node of a swarm can be run in one process, too
    app = load(target)
    try:
        app.override(settings, kafka_settings(bootstrap, pairs))
        set_up_logging(app.settings()["log_level"])
        app.run()
    except GreteError as error:
        raise click.ClickException(str(error)) from None
