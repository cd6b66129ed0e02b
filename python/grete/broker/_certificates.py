"""Certificates of embedded brokers: an authority, a broker and a client, made anew at each start."""

import os
from pathlib import Path

from grete import _native

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


class Certificates:
    """Files in `directory` that clients need, and the texts that the brokers need."""

    def __init__(self, directory: "str | os.PathLike[str]", *, mutual: bool, logins: bool) -> None:
        """`mutual`: clients must show a certificate. `logins`: clients must log in by SASL."""
        self._directory = Path(directory)
        self._logins = logins
        self._mutual = mutual

    @property
    def client_settings(self) -> dict[str, str]:
        """Kafka settings by which clients connect; those of the login are not among them."""
        protocol = "SASL_SSL" if self._logins else "SSL"
        settings = {"security.protocol": protocol, "ssl.ca.location": str(self._directory / "ca.pem")}
        if self._mutual:
            settings["ssl.keystore.location"] = str(self._directory / "client.pem")
        return settings

    def make(self, hosts: "Sequence[str]") -> tuple[str, str, str | None]:
        """Makes certificates and writes the clients' files. Returns chain and key of the brokers, and the authority of
        clients' certificates, in PEM.
        """
        names = list(dict.fromkeys(["localhost", "127.0.0.1", "::1", *hosts]))
        authority, broker, broker_key, client, client_key = _native.dev_certificates(names)
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
            _write(self._directory / "ca.pem", authority)
            _write(self._directory / "client.pem", client + client_key)
        except OSError as error:
            from grete.errors import ConfigError

            raise ConfigError(
                f'certificates cannot be written to "{self._directory}": {error.strerror}; choose another directory '
                "(tls, --tls-dir)",
                setting="tls",
            ) from error
        return broker, broker_key, authority if self._mutual else None


def _write(path: Path, text: str) -> None:
    """Replaces a file in one step, so that a client that reads it again never sees half of it."""
    new = path.with_name(path.name + ".new")
    new.unlink(missing_ok=True)
    new.touch(mode=0o600, exist_ok=False)
    new.write_text(text)
    new.replace(path)
