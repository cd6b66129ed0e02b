"""Records `grete top` beside the shop, into docs/web.md: `python -m docsite.web.top`."""

import subprocess
import sys
import time

from docsite.outside import DOCS, ROOT
from docsite.web.running_shop import shop

FILE = DOCS / "web.md"
# Seconds of work before the frame, so that the sparklines are full.
_WORK = 75.0
_BEGIN, _END = "<!-- recording of grete top -->\n", "<!-- end of the recording -->\n"


def main() -> None:
    """Writes one frame into the page."""
    with shop() as (servers, _):
        time.sleep(_WORK)
        command = [sys.executable, "-m", "grete", "top", "--once", "--bootstrap", servers]
        frame = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    head, _, rest = FILE.read_text().partition(_BEGIN)
    tail = rest.partition(_END)[2]
    block = "".join(f"    {line}".rstrip() + "\n" for line in ["$ grete top", *frame.splitlines()])
    FILE.write_text(f"{head}{_BEGIN}\n{block}\n{_END}{tail}")


if __name__ == "__main__":
    main()
