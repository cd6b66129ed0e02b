"""A KDC of Apache Kerby for tests, and Apache Kafka with a listener for GSSAPI beside it."""

from __future__ import annotations

import os
import queue
import shutil
import subprocess
import threading
from pathlib import Path
from typing import Any, Self

from tests.kafka.apache import ApacheCluster
from tests.kafka.jars import build_directory, exclusive
from tests.kafka.node import Node
from tests.kafka.ports import ReservedPort
from tests.kafka.processes import end, spawn

HERE = Path(__file__).resolve().parent
REALM = "GRETE.TEST"


def kerby() -> str:
    """The class path of the KDC; brings its jars from Maven Central into build/kerby, once per checkout."""
    libs, pom = build_directory().parent / "kerby", HERE / "pom.xml"
    stamp, wanted = libs / "jars.stamp", pom.read_text()
    with exclusive(build_directory() / "kerby.lock"):
        if not stamp.exists() or stamp.read_text() != wanted:
            if shutil.which("mvn") is None:
                raise RuntimeError(
                    "Apache Maven is needed to bring a KDC's jars: install it (Debian: apt install maven)"
                )
            command = ["mvn", "-q", "-B", "-f", str(pom), "dependency:copy-dependencies", f"-DoutputDirectory={libs}"]
            done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
            if done.returncode != 0:
                raise RuntimeError(f"Maven did not bring Apache Kerby:\n{done.stdout[-4000:]}")
            stamp.write_text(wanted)
    return f"{libs}/*"


class Kdc:
    """A KDC for the realm GRETE.TEST, and its krb5.conf. `directory`: where its files go."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.port = ReservedPort()
        # Not krb5.conf: the KDC writes one of its own into its directory.
        self.config = self.write_config("client.conf", self.port.number)
        command = ["java", "-Xmx128m", "-XX:TieredStopAtLevel=1", "-cp", kerby(), str(HERE / "Kdc.java")]
        command += [REALM, str(self.port.number), str(directory)]
        with (directory / "kdc.log").open("wb") as log:
            self._process = spawn(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log)
        self._answers: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read, name="kdc-output", daemon=True)
        self._reader.start()
        self._await("its start")

    def write_config(self, name: str, port: int, lines: str = "") -> Path:
        """A krb5.conf for a KDC on this port. `lines`: more of [libdefaults]."""
        path = self.directory / name
        path.write_text(
            f"[libdefaults]\n  default_realm = {REALM}\n  dns_lookup_kdc = false\n  dns_lookup_realm = false\n"
            f"  dns_canonicalize_hostname = false\n  rdns = false\n  udp_preference_limit = 1\n{lines}"
            f"[realms]\n  {REALM} = {{\n    kdc = 127.0.0.1:{port}\n  }}\n"
            f"[domain_realm]\n  localhost = {REALM}\n"
        )
        return path

    def environment(self, **others: str) -> dict[str, str]:
        """Variables for a process that uses this KDC, and no ticket of the user who runs the tests."""
        return {**os.environ, "KRB5_CONFIG": str(self.config), "KRB5CCNAME": str(self.directory / "no-cache"), **others}

    def keytab(self, principal: str) -> Path:
        """Makes a principal; returns a keytab with its key."""
        path = self.directory / f"{principal.replace('/', '-')}.keytab"
        self._command(f"keytab {path} {principal}@{REALM}")
        return path

    def change_key(self, principal: str) -> None:
        self._command(f"change {principal}@{REALM}")

    def delete(self, principal: str) -> None:
        self._command(f"delete {principal}@{REALM}")

    def ticket_cache(self, principal: str) -> Path:
        """Makes a principal and logs it in; returns the file with its ticket."""
        path = self.directory / f"{principal}.cache"
        self._command(f"ticket {path} {principal}@{REALM} pass-of-{principal}")
        return path

    def _command(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n".encode())
        self._process.stdin.flush()
        self._await(line)

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._answers.put(line.decode().strip())
        self._answers.put("error: the KDC has ended")

    def _await(self, what: str) -> None:
        answer = self._answers.get(timeout=60.0)
        if answer != "ok":
            raise RuntimeError(f"{what}: {answer}\n{(self.directory / 'kdc.log').read_text()[-4000:]}")

    def close(self) -> None:
        end(self._process)
        self._reader.join(10.0)
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()
        self.port.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class KerberosCluster(ApacheCluster):
    """One node with two listeners for GSSAPI beside the plain one. Each is another principal: kafka/localhost and
    kafka/127.0.0.1. `session_ms`: life of a session. `keystore`: certificate and key of a third one, with TLS, at
    localhost. `options`: those of ApacheCluster.
    """

    def __init__(
        self, version: str | None, kdc: Kdc, session_ms: int, keystore: Path | None = None, **options: Any
    ) -> None:
        super().__init__(version, **options)
        self.keystore, self.tls_port = keystore, ReservedPort()
        self.kdc, self.session_ms = kdc, session_ms
        self.hosts = {"localhost": ReservedPort(), "127.0.0.1": ReservedPort()}
        self._extra_jvm = [f"-Djava.security.krb5.conf={kdc.config}"]

    def servers(self, host: str = "localhost") -> str:
        return f"{host}:{self.hosts[host].number}"

    @property
    def tls_servers(self) -> str:
        return f"localhost:{self.tls_port.number}"

    def _close(self) -> None:
        super()._close()
        for port in (*self.hosts.values(), self.tls_port):
            port.release()

    def _node_properties(self, node: Node, voters: str, data: Path) -> dict[str, str]:
        found = super()._node_properties(node, voters, data)
        found["sasl.kerberos.service.name"] = "kafka"
        wanted = [(host, self.servers(host), "SASL_PLAINTEXT") for host in self.hosts]
        if self.keystore is not None:
            wanted.append(("localhost", self.tls_servers, "SASL_SSL"))
            found |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(self.keystore)}
        keytabs = {host: self.kdc.keytab(f"kafka/{host}") for host in self.hosts}
        for number, (host, servers, protocol) in enumerate(wanted):
            name = f"KERBEROS{number}"
            for setting in ("listeners", "advertised.listeners"):
                found[setting] += f",{name}://{servers}"
            found["listener.security.protocol.map"] += f",{name}:{protocol}"
            listener = f"listener.name.{name.lower()}"
            found |= {
                f"{listener}.sasl.enabled.mechanisms": "GSSAPI",
                f"{listener}.gssapi.sasl.jaas.config": (
                    "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true "
                    f'keyTab="{keytabs[host]}" principal="kafka/{host}@{REALM}";'
                ),
                f"{listener}.connections.max.reauth.ms": str(self.session_ms),
            }
        return found
