"""Apache Kafka in a container, for one session of tests."""

import shutil
import socket
import subprocess

from grete.client import Admin
from grete.errors import GreteError
from grete.testing._kafka.cluster import CLIENT_ID

_IMAGE = "apache/kafka"
# Seconds for the download of the image, and for the start of Kafka.
_DOWNLOAD_TIMEOUT = 600.0
_START_TIMEOUT = 120.0


class Container:
    """One broker of Apache Kafka, by the official image and `docker` or `podman`."""

    def __init__(self, version: str) -> None:
        """Returns when the broker responds. Raises GreteError if that is not possible."""
        found = shutil.which("docker") or shutil.which("podman")
        if found is None:
            raise GreteError(
                f"--kafka=apache:{version} needs docker or podman on the path: install one of them, or start Apache "
                "Kafka yourself and give its HOST:PORT"
            )
        self._command = found
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.bootstrap_servers = f"127.0.0.1:{port}"
        environment = {
            "KAFKA_NODE_ID": "1",
            "KAFKA_PROCESS_ROLES": "broker,controller",
            "KAFKA_LISTENERS": "PLAINTEXT://:9092,CONTROLLER://:9093",
            "KAFKA_ADVERTISED_LISTENERS": f"PLAINTEXT://{self.bootstrap_servers}",
            "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
            "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@localhost:9093",
            "KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR": "1",
            "KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR": "1",
            "KAFKA_TRANSACTION_STATE_LOG_MIN_ISR": "1",
            "KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS": "0",
            "KAFKA_GROUP_MIN_SESSION_TIMEOUT_MS": "1",
            "KAFKA_GROUP_CONSUMER_HEARTBEAT_INTERVAL_MS": "100",
            "KAFKA_GROUP_CONSUMER_MIN_HEARTBEAT_INTERVAL_MS": "100",
        }
        options = [part for name, value in environment.items() for part in ("--env", f"{name}={value}")]
        publish = ["--publish", f"{self.bootstrap_servers}:9092"]
        try:
            started = subprocess.run(
                [found, "run", "--detach", "--rm", *publish, *options, f"{_IMAGE}:{version}"],
                capture_output=True,
                text=True,
                timeout=_DOWNLOAD_TIMEOUT,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise GreteError(
                f"{found} did not start {_IMAGE}:{version} within {error.timeout:.0f} s: download the image by itself, "
                f"{found} pull {_IMAGE}:{version}"
            ) from error
        if started.returncode != 0:
            raise GreteError(f"{_IMAGE}:{version} does not start: {started.stderr.strip()}")
        self._id = started.stdout.strip().splitlines()[-1]
        try:
            with Admin({"bootstrap.servers": self.bootstrap_servers, "client.id": CLIENT_ID}) as admin:
                admin.cluster(timeout=_START_TIMEOUT)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Removes the container."""
        subprocess.run([self._command, "rm", "--force", self._id], capture_output=True, timeout=60.0, check=False)
