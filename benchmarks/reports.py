"""Cost of the reports for `grete web` in a process: CPU of the threads that write them, and bytes.

    python -m benchmarks.reports [--partitions 50] [--seconds 60]

An App reads so many partitions of an embedded broker in another process, at a low rate. The CPU time is that of the
threads "grete-reports" and of the producer that only reports use, by the scheduler's own count. The thread of the App
wakes up for stacks, and is measured, too.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from grete.broker import Broker
from grete.client import Admin, Consumer, Producer

_APP = """
import grete
app = grete.App("costs", web_reports="3s", kafka={"bootstrap.servers": BOOTSTRAP}, log_level="warning")

@app.consumer("numbers")
def work(messages: grete.Messages) -> None:
    pass
"""


def thread_times(pid: int) -> dict[str, float]:
    """CPU seconds by the thread's number and name."""
    found = {}
    for task in Path(f"/proc/{pid}/task").iterdir():
        name = (task / "comm").read_text().strip()
        found[f"{task.name} {name}"] = int((task / "schedstat").read_text().split()[0]) / 1e9
    return found


def main() -> None:
    """Measures, and prints the figures."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--partitions", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=60.0)
    options = parser.parse_args()
    with Broker(topics={"numbers": options.partitions, "grete.reports": 1, "grete.errors": 1}) as broker:
        servers = broker.bootstrap_servers
        with tempfile.TemporaryDirectory() as directory:
            Path(directory, "costs.py").write_text(_APP.replace("BOOTSTRAP", repr(servers)))
            process = subprocess.Popen([sys.executable, "-m", "grete", "run", "costs:app"], cwd=directory)
            with Producer({"bootstrap.servers": servers}) as producer:
                feed(producer, options.partitions, 10.0)
                before, bytes_before = thread_times(process.pid), written(servers)
                feed(producer, options.partitions, options.seconds)
                after, bytes_after = thread_times(process.pid), written(servers)
            process.terminate()
            process.wait()
        records = [record for record in broker.records("grete.reports") if b"#" not in (record.key or b"")]
        sizes = [len(record.value or b"") + len(record.key or b"") for record in records]
        lanes = len(json.loads(records[-2].value or b"")["lanes"])
    spent = {name: after[name] - before.get(name, 0.0) for name in after}
    for name, seconds in sorted(spent.items(), key=lambda one: -one[1])[:8]:
        print(f"{name:32} {100 * seconds / options.seconds:.4f} % of a core")
    own = sum(seconds for name, seconds in spent.items() if name.endswith("grete-reports"))
    # The App's handlers produce nothing: the only producer is that of the reports.
    producers = sum(seconds for name, seconds in spent.items() if name.endswith("grete-producer"))
    print(f"thread of the reports {100 * own / options.seconds:.4f} % of a core")
    print(f"their producer {100 * producers / options.seconds:.4f} % of a core")
    print(f"{options.partitions} partitions, {lanes} in the last report")
    print(f"{sum(sizes) / len(sizes):.0f} bytes a report")
    print(f"{(bytes_after - bytes_before) / options.seconds:.0f} bytes/s in the log, compressed")


def feed(producer: Producer, partitions: int, seconds: float) -> None:
    """Writes a record to each partition once a second."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        for partition in range(partitions):
            producer.produce("numbers", b"1", partition=partition)
        time.sleep(1.0)


def written(servers: str) -> int:
    """Bytes of the topic of reports, compressed, as a reader gets them."""
    with Admin({"bootstrap.servers": servers}) as admin:
        end = admin.offsets([("grete.reports", 0, "latest")])["grete.reports", 0]
    with Consumer({"bootstrap.servers": servers, "enable.auto.commit": "false"}) as reader:
        reader.assign([("grete.reports", 0, 0)])
        while (reader.position("grete.reports", 0) or 0) < end:
            reader.poll(1.0)
        return int(reader.statistics()["bytes_received"])


if __name__ == "__main__":
    main()
