"""Templates, and the forms of numbers and times in them."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from grete._web.server.context import Context, Data

_HERE = Path(__file__).parents[1]
TEMPLATES = _HERE / "templates"
STATIC = _HERE / "static"

NAVIGATION = (
    ("/", "Dashboard", "d"),
    ("/processes", "Processes", "p"),
    ("/groups", "Groups", "g"),
    ("/errors", "Errors", "e"),
    ("/letters", "Dead letters", "l"),
    ("/topics", "Topics", "t"),
    ("/cluster", "Cluster", "c"),
    ("/transactions", "Transactions", "x"),
    ("/audit", "Audit", "a"),
    ("/status", "Status", "s"),
)
"""Path, title, and the key that follows "g"."""

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")
_MANY = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e4, "k"))
DASH = "–"  # noqa: RUF001 (the dash of tables)


def number(value: float | None, digits: int = 0) -> str:
    """Formats a number with thousands separators; None: a dash."""
    return DASH if value is None else f"{value:,.{digits}f}"


def short(value: float | None) -> str:
    """Formats a number in at most five characters."""
    if value is None:
        return DASH
    for size, unit in _MANY:
        if abs(value) >= size:
            divisor = size if unit != "k" else 1e3
            return f"{value / divisor:.3g}{unit}" if value / divisor < 1000 else f"{value / divisor:.0f}{unit}"
    return f"{value:,.0f}" if value >= 10 or value == int(value) else f"{value:.1f}"


def size(value: float | None) -> str:
    """Formats a size in bytes."""
    if value is None:
        return DASH
    unit = 0
    while value >= 1024 and unit < len(_UNITS) - 1:
        value, unit = value / 1024, unit + 1
    return f"{value:.0f} {_UNITS[unit]}" if unit == 0 or value >= 100 else f"{value:.1f} {_UNITS[unit]}"


def duration(millis: float | None) -> str:
    """Formats a duration in milliseconds with its two largest units."""
    if millis is None:
        return DASH
    if millis < 1000:
        return f"{millis:.0f} ms"
    seconds = millis / 1000
    if seconds < 60:
        return f"{seconds:.1f} s"
    whole = int(seconds)
    for unit, per, small, per_small in (("d", 86_400, "h", 3600), ("h", 3600, "min", 60), ("min", 60, "s", 1)):
        if whole >= per:
            rest = whole % per // per_small
            return f"{whole // per} {unit} {rest} {small}" if rest else f"{whole // per} {unit}"
    return f"{whole} s"


def when(millis: int | None, style: str = "time") -> Markup:
    """Formats a time as an element that the page shows in local time, with UTC as its title. `style`: "time" or
    "date".
    """
    if not millis or millis < 0 or millis > 253_402_300_799_000:
        return Markup(DASH)  # noqa: S704 (a constant)
    at = datetime.fromtimestamp(millis / 1000, UTC)
    iso = at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    text = f"{at:%Y-%m-%d %H:%M:%S}" if style == "date" else f"{at:%H:%M:%S}"
    return Markup('<time datetime="{}" data-style="{}" title="{} UTC">{} UTC</time>').format(
        iso, style, f"{at:%Y-%m-%d %H:%M:%S}", text
    )


def sparkline(values: "list[int | None]", width: int = 96, height: int = 20) -> Markup:
    """Draws values as a line; times at which none is known are left out."""
    known = [value for value in values if value is not None]
    if len(known) < 2:
        return Markup('<span class="muted">{}</span>').format(DASH)
    most = max(known) or 1
    step = width / (len(values) - 1)
    points = " ".join(
        f"{place * step:.1f},{height - 1 - (height - 2) * value / most:.1f}"
        for place, value in enumerate(values)
        if value is not None
    )
    return Markup(
        '<svg class="spark" viewBox="0 0 {} {}" width="{}" height="{}" role="img" aria-label="{}">'
        '<polyline points="{}"></polyline></svg>'
    ).format(width, height, width, height, f"from {known[0]:,} to {known[-1]:,}, at most {most:,}", points)


def make_environment() -> Environment:
    """Returns the environment of the templates, which escapes everything."""
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"num": number, "short": short, "size": size, "ms": duration}
    environment.globals |= {"when": when, "sparkline": sparkline, "dash": DASH, "navigation": NAVIGATION}
    return environment


def render(environment: Environment, template: str, data: Data, context: Context | None, **more: Any) -> str:
    """Returns a page. `context` None: the request has no user."""
    user = context.user if context is not None else None
    return environment.get_template(template).render(
        data=data, user=user, now=context.now if context is not None else 0, **more
    )
