"""Process of `grete web` beside the brokers of `grete dev`."""

import os
import subprocess
import sys

from grete.broker import Broker

REPORTS = {"GRETE_WEB_REPORTS": "3s", "GRETE_WEB_COMMANDS": "true"}
"""Environment of the App, so that it reports, and obeys the buttons of the pages."""
# Seconds for a clean end.
_STOP_WITHIN = 5.0


class WebProcess:
    """`grete web --setup` on these brokers, from its creation to `stop`. Does not outlive this process."""

    def __init__(self, port: int, broker: Broker) -> None:
        """`port` 0: a free one, which the process prints."""
        pairs = [word for name, value in broker.client_settings.items() for word in ("-k", f"{name}={value}")]
        words = ["web", "--setup", "--port", str(port), "--bootstrap", broker.bootstrap_servers, *pairs]
        self._process = subprocess.Popen([sys.executable, "-m", "grete._cli.app_child", str(os.getpid()), *words])

    def stop(self) -> None:
        """Ends the process, and waits for its end."""
        self._process.terminate()
        try:
            self._process.wait(_STOP_WITHIN)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
