"""Certificates of tests: an authority, and what it signs, as PEM files."""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

NOW = datetime.datetime.now(datetime.UTC)
DAY = datetime.timedelta(days=1)
CA_USAGE = x509.KeyUsage(
    digital_signature=False,
    content_commitment=False,
    key_encipherment=False,
    data_encipherment=False,
    key_agreement=False,
    key_cert_sign=True,
    crl_sign=True,
    encipher_only=False,
    decipher_only=False,
)
"""Use of an authority's key, which Python checks from 3.13 on (RFC 5280)."""


@dataclass(frozen=True)
class Identity:
    """PEM files: `chain` has the certificate, `key` its key, and `keystore` both, as Java wants them."""

    chain: Path
    key: Path
    keystore: Path


class Authority:
    """A CA of its own. `file`: its certificate."""

    def __init__(self, directory: Path, name: str) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self._key = ec.generate_private_key(ec.SECP256R1())
        builder = self._builder(self._name, self._key.public_key(), NOW - DAY, NOW + 30 * DAY)
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        certificate = builder.add_extension(CA_USAGE, critical=True).sign(self._key, hashes.SHA256())
        self.file = directory / "ca.pem"
        self.file.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))

    def sign(
        self,
        name: str,
        hosts: Sequence[str] = ("localhost", "127.0.0.1"),
        password: str | None = None,
        not_after: datetime.datetime | None = None,
        not_before: datetime.datetime | None = None,
    ) -> Identity:
        """Make a key and a certificate for both sides of TLS. `password`: encrypts the key (PKCS#8)."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        builder = self._builder(subject, key.public_key(), not_before or NOW - 2 * DAY, not_after or NOW + 30 * DAY)
        usages = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        builder = builder.add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        names = x509.SubjectAlternativeName([_general_name(host) for host in hosts])
        certificate = builder.add_extension(names, critical=False).sign(self._key, hashes.SHA256())
        chain = certificate.public_bytes(serialization.Encoding.PEM)
        encryption: serialization.KeySerializationEncryption = serialization.NoEncryption()
        if password is not None:
            encryption = serialization.BestAvailableEncryption(password.encode())
        pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption)
        files = [self._directory / f"{name}{suffix}" for suffix in (".crt", ".key", ".pem")]
        for file, content in zip(files, (chain, pem, pem + chain), strict=True):
            file.write_bytes(content)
        return Identity(*files)

    def revoke(self, *identities: Identity) -> Path:
        """Make a list of revoked certificates."""
        builder = x509.CertificateRevocationListBuilder().issuer_name(self._name)
        builder = builder.last_update(NOW - DAY).next_update(NOW + DAY)
        builder = builder.add_extension(x509.CRLNumber(1), critical=False)
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        builder = builder.add_extension(issuer, critical=False)
        for identity in identities:
            serial = x509.load_pem_x509_certificate(identity.chain.read_bytes()).serial_number
            revoked = x509.RevokedCertificateBuilder().serial_number(serial).revocation_date(NOW - DAY).build()
            builder = builder.add_revoked_certificate(revoked)
        file = self._directory / "revoked.pem"
        file.write_bytes(builder.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
        return file

    def _builder(
        self,
        subject: x509.Name,
        key: ec.EllipticCurvePublicKey,
        not_before: datetime.datetime,
        not_after: datetime.datetime,
    ) -> x509.CertificateBuilder:
        builder = x509.CertificateBuilder().subject_name(subject).issuer_name(self._name).public_key(key)
        builder = builder.serial_number(x509.random_serial_number())
        builder = builder.not_valid_before(not_before).not_valid_after(not_after)
        return with_key_ids(builder, key, self._key.public_key())


def with_key_ids(
    builder: x509.CertificateBuilder, key: ec.EllipticCurvePublicKey, issuer: ec.EllipticCurvePublicKey
) -> x509.CertificateBuilder:
    """Adds the identifiers of both keys, which Python checks from 3.13 on (RFC 5280)."""
    own = x509.SubjectKeyIdentifier.from_public_key(key)
    of_issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer)
    return builder.add_extension(own, critical=False).add_extension(of_issuer, critical=False)


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
