"""Page that leads on by itself, without a script, which the policy of the pages would not allow."""

import html

from starlette.responses import HTMLResponse


def leading_page(title: str, path: str) -> HTMLResponse:
    """Returns a page that leads to this path. From there a browser sends strict cookies, whatever site led here."""
    target = html.escape(path, quote=True)
    return HTMLResponse(
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        f'<meta http-equiv="refresh" content="0;url={target}"></head><body><a href="{target}">Go on</a></body></html>'
    )
