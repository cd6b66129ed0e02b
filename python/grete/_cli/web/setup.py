"""Commands `grete web setup` and `grete web password`."""

import sys

import click

from grete._cli.param_ranges import REPLICAS
from grete._cli.session import AdminSession, admin_command
from grete._cli.terminal import output


@click.command()
@click.option(
    "--replication",
    type=REPLICAS,
    metavar="N",
    help="Copies of each topic.  [default: asked for on a terminal; else that of the brokers]",
)
@click.option("--check", is_flag=True, help="Only show what is missing; exit status 1 if something is.")
@admin_command
def setup(session: AdminSession, replication: int | None, check: bool) -> None:
    """Creates the topics of grete web, and corrects their settings. May be repeated.

    grete.reports (compacted) has the last report of each process, grete.errors the errors of 30 days, grete.history
    (compacted) the time series, grete.commands the commands to processes, and grete.audit those of 90 days with their
    results. Each has one partition.
    """
    from grete._web import topics

    states = topics.topic_states(session.admin, session.timeout)
    wrong = [state for state in states if not state.exists or state.differences]
    if check:
        rows = [
            (state.name, "ok" if state not in wrong else "differs" if state.exists else "missing", state.replication)
            for state in states
        ]
        session.rows(("topic", "state", "copies"), rows, if_empty="")
        if wrong:
            raise click.exceptions.Exit(1)
        return
    missing = [state.name for state in states if not state.exists]
    if missing and replication is None and output.is_terminal(sys.stdin):
        brokers = len(session.admin.cluster(timeout=session.timeout).brokers)
        replication = click.prompt(
            f"Copies of each topic ({brokers} in the cluster)", default=min(3, brokers), type=REPLICAS, err=True
        )
    created, changed = topics.create_topics(session.admin, replication or -1, session.timeout)
    parts = [f"created: {', '.join(created)}"] if created else []
    parts += [f"settings corrected: {', '.join(changed)}"] if changed else []
    session.done("; ".join(parts) or "everything is there already", created=created, changed=changed)


@click.command()
@click.argument("name")
@click.option("--role", type=click.Choice(["viewer", "operator", "admin"]), default="viewer", show_default=True)
def password(name: str, role: str) -> None:
    """Prints a line for the file of --users. Asks for the password, or reads it from standard input."""
    from grete._web.security.access import hash_password

    if output.is_terminal(sys.stdin):
        secret = click.prompt("Password", hide_input=True, confirmation_prompt=True, err=True)
    else:
        secret = sys.stdin.readline().rstrip("\n")
    if len(secret) < 8:
        raise click.UsageError("a password has 8 characters or more")
    click.echo(f"{name}:{role}:{hash_password(secret)}")
