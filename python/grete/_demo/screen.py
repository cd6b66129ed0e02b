"""View on a terminal, for 80 columns and 24 lines."""

import rich.console
import rich.constrain
import rich.live
import rich.table
import rich.text

from grete._demo.claims import Claim, Result
from grete._demo.picture import Counter, Picture
from grete._plural import counted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from grete._swarm.status.snapshot import NodeStatus

_WIDTH = 80
_MARKS = {
    Result.OPEN: ("·", "dim"),
    Result.RUNNING: ("▸", "yellow"),
    Result.TRUE: ("✓", "green"),
    Result.FALSE: ("✗", "red"),
}
_STATE_STYLES = {"ready": "green", "backoff": "red"}


class Screen:
    """View that draws the picture over the last one. Lines that do not fit are cut."""

    def __init__(self) -> None:
        self._console = rich.console.Console(highlight=False)
        self._live = rich.live.Live(
            console=self._console, auto_refresh=False, redirect_stdout=False, redirect_stderr=False
        )
        self._live.start()

    def draw(self, picture: Picture) -> None:
        """Replaces the picture on the terminal."""
        self._live.update(render(picture), refresh=True)

    def close(self) -> None:
        """Shows the cursor again. May be called again."""
        self._live.stop()


def render(picture: Picture) -> rich.console.RenderableType:
    """Returns the whole picture."""
    parts = (_head(picture), "", _flow(picture), "", _nodes(picture), "", _claims(picture.claims))
    return rich.constrain.Constrain(rich.console.Group(*parts), _WIDTH)


def _grid(*widths: int | None) -> rich.table.Table:
    """Makes a table without lines. None: the column takes the rest."""
    grid = rich.table.Table.grid(padding=(0, 2, 0, 0), expand=True)
    for width in widths:
        grid.add_column(width=width, no_wrap=True, overflow="ellipsis", ratio=1 if width is None else None)
    return grid


def _head(picture: Picture) -> rich.table.Table:
    grid = _grid(None)
    grid.add_column(justify="right", no_wrap=True)
    where = f"a broker on {picture.bootstrap_servers}" if picture.bootstrap_servers else "starting a broker"
    grid.add_row(rich.text.Text.assemble(("grete demo", "bold"), f"   {where}"), f"{picture.elapsed:.1f} s")
    return grid


def _flow(picture: Picture) -> rich.table.Table:
    grid = _grid(10, 9, 12, None)
    grid.add_row("written", *_numbers(picture.written), "orders")
    grid.add_row("handled", *_numbers(picture.handled), f"invoices, lag {picture.lag:,}")
    return grid


def _numbers(counter: Counter) -> tuple[rich.text.Text, rich.text.Text]:
    rate = rich.text.Text(f"{counter.rate:,.0f}/s", justify="right", style="cyan")
    return rich.text.Text(f"{counter.count:,}", justify="right"), rate


def _nodes(picture: Picture) -> rich.table.Table:
    grid = _grid(10, 12, 14, None)
    for number in range(max(2, len(picture.nodes))):
        if number < len(picture.nodes):
            grid.add_row(f"node {number}", *_node(picture.nodes[number]))
        else:
            grid.add_row(f"node {number}", rich.text.Text("stopped" if picture.stopped else "-", "dim"))
    return grid


def _node(node: "NodeStatus") -> tuple[rich.text.Text, str, str]:
    state = rich.text.Text(node["state"], _STATE_STYLES.get(node["state"], "yellow"))
    if node["pid"] is None:
        wait = f", starts in {node['restart_in']:.1f} s" if node["restart_in"] is not None else ""
        return state, "-", f"{node['last_death']}{wait}"
    partitions = sum(node["lanes"].values())
    return state, f"process {node['pid']}", f"{counted(partitions, 'partition')}, lag {node['lag'] or 0:,}"


def _claims(claims: list[Claim]) -> rich.table.Table:
    grid = _grid(1, 27, None)
    for claim in claims:
        mark, style = _MARKS[claim.result]
        title = rich.text.Text(claim.title, "dim" if claim.result is Result.OPEN else "")
        grid.add_row(rich.text.Text(mark, style), title, rich.text.Text(claim.detail, "" if claim.detail else "dim"))
    return grid
