"""Load of `grete web`: so many simulated Apps report, and pages are asked for.

    python -m benchmarks.web [--apps 200] [--partitions 50] [--seconds 60]

The reports have the form and the size of real ones. The process of `grete web` is measured: latency of pages as one
browser sees it, resident memory, CPU time.
"""

import argparse
import http.client
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

from grete.broker import Broker
from grete.client import Producer
from tests.unit.web.simulated_reports import lane, report, settings

PAGES = ("/", "/processes", "/process?id=app-7/host-7/7-a", "/errors", "/status", "/api/series?range=1h")
_EVERY = 3.0


def main() -> None:
    """Measures, and prints the figures."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--apps", type=int, default=200)
    parser.add_argument("--partitions", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=60.0)
    options = parser.parse_args()
    with Broker(topics={"orders": 1}) as broker:
        command = [sys.executable, "-m", "grete", "web", "--setup", "--port", "0"]
        process = subprocess.Popen(
            [*command, "--bootstrap", broker.bootstrap_servers], stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        port = int(process.stdout.readline().rpartition(":")[2])
        ended = threading.Event()
        writer = threading.Thread(
            target=write, args=(broker.bootstrap_servers, options.apps, options.partitions, ended)
        )
        writer.start()
        time.sleep(4 * _EVERY)
        cpu, begun = cpu_seconds(process.pid), time.monotonic()
        latencies = ask(port, options.seconds)
        spent = (cpu_seconds(process.pid) - cpu) / (time.monotonic() - begun)
        memory = int(Path(f"/proc/{process.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        ended.set()
        writer.join()
        process.terminate()
        process.wait()
    print(f"{options.apps} Apps, {options.partitions} partitions each, a report every {_EVERY:g} s")
    for page, times in latencies.items():
        times.sort()
        median, late = times[len(times) // 2], times[len(times) * 99 // 100]
        print(f"{page:32} median {1000 * median:.0f} ms, 99 % {1000 * late:.0f} ms")
    print(f"CPU {100 * spent:.1f} % of a core, RSS {memory / 2**20:.0f} MiB")


def ask(port: int, seconds: float) -> dict[str, list[float]]:
    """Asks for all pages in turn, twice a second. Returns the times in seconds."""
    latencies: dict[str, list[float]] = {page: [] for page in PAGES}
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        for page in PAGES:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30.0)
            begun = time.monotonic()
            connection.request("GET", page)
            response = connection.getresponse()
            response.read()
            latencies[page].append(time.monotonic() - begun)
            assert response.status == 200, (page, response.status)
            connection.close()
            time.sleep(0.5 / len(PAGES))
    return latencies


def write(servers: str, apps: int, partitions: int, ended: threading.Event) -> None:
    """Writes the reports of all Apps, each every three seconds."""
    seq = 0
    with Producer({"bootstrap.servers": servers}) as producer:
        for app in range(apps):
            name = f"app-{app}/host-{app}/{app}-a"
            producer.produce("grete.reports", settings(name), key=f"{name}#settings".encode())
        while not ended.is_set():
            due = time.monotonic() + _EVERY
            now = int(time.time() * 1000)
            for app in range(apps):
                name = f"app-{app}/host-{app}/{app}-a"
                lanes = [lane(number, lag=seq % 7, position=1000 + seq) for number in range(partitions)]
                value = report(name, lanes=lanes, seq=seq, records=seq * 1000, at=now, workers=5)
                producer.produce("grete.reports", value, key=name.encode())
                ended.wait(_EVERY / apps / 2)
            seq += 1
            ended.wait(max(0.0, due - time.monotonic()))


def cpu_seconds(pid: int) -> float:
    """CPU time of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    main()
