# SPDX-License-Identifier: Apache-2.0
"""Who is who: the coordinator's own certificate authority, a key and a certificate for each silo, its invitation.

A certificate is known by its digest: the coordinator accepts those it made, the silo accepts one coordinator alone.
"""

import hashlib
import os
import ssl
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import tomli_w
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from fedqa import __version__
from fedqa.config import read_toml
from fedqa.errors import ConfigError
from fedqa.tables import from_table

COORDINATOR = "coordinator"  # the name in its certificate; a silo's is a digest, so the two cannot be the same
Known = Mapping[str, str]  # digest of a certificate -> silo
_SOON = timedelta(days=30)
_SKEW = timedelta(days=1)  # certificates are valid from yesterday on: clocks differ


@dataclass(frozen=True)
class Pair:
    """A private key and its certificate, in PEM."""

    key: str
    certificate: str

    @property
    def digest(self) -> str:
        return digest_of(ssl.PEM_cert_to_DER_cert(self.certificate))


@dataclass(frozen=True)
class Invitation:
    """All that a silo needs to reach its coordinator and no other. Whoever holds it can speak for the silo."""

    silo: str
    coordinator: str  # host:port
    pin: str  # digest of the coordinator's certificate
    authority: str
    certificate: str
    key: str
    fedqa: str = __version__  # that the coordinator had when it was written


def digest_of(der: bytes) -> str:
    return hashlib.sha256(der).hexdigest()


def wire_name(silo: str) -> str:
    """The silo's name in its certificate and among the engine's endpoints, where dots have a meaning."""
    return "silo-" + hashlib.sha256(silo.encode()).hexdigest()[:24]


def make_authority(days: int) -> Pair:
    key = ec.generate_private_key(ec.SECP256R1())
    name = _named("fedqa authority")
    builder = _builder(name, name, key.public_key(), days).add_extension(x509.BasicConstraints(True, 0), critical=True)
    return _pair(key, builder.sign(key, hashes.SHA256()))


def issue(authority: Pair, name: str, days: float) -> Pair:
    """A key and a certificate that the authority signs, for so many days from now."""
    signer = serialization.load_pem_private_key(authority.key.encode(), None)
    assert isinstance(signer, ec.EllipticCurvePrivateKey)
    issuer = x509.load_pem_x509_certificate(authority.certificate.encode())
    key = ec.generate_private_key(ec.SECP256R1())
    builder = _builder(_named(name), issuer.subject, key.public_key(), days)
    builder = builder.add_extension(x509.BasicConstraints(False, None), critical=True).add_extension(
        x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False
    )
    return _pair(key, builder.sign(signer, hashes.SHA256()))


def ends_soon(certificate: str) -> str:
    """A sentence if a certificate is about to expire; empty otherwise."""
    end = x509.load_pem_x509_certificate(certificate.encode()).not_valid_after_utc
    left = end - datetime.now(UTC)
    return f"the certificate is valid until {end:%Y-%m-%d}; a new one is needed soon" if left < _SOON else ""


def context(own: Pair, authority: str, *, server: bool) -> ssl.SSLContext:
    """TLS 1.3 in which both sides show a certificate of this authority. Names are not looked at: digests are."""
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if server else ssl.PROTOCOL_TLS_CLIENT)
    made.minimum_version = ssl.TLSVersion.TLSv1_3
    made.check_hostname = False
    made.verify_mode = ssl.CERT_REQUIRED
    try:
        made.load_verify_locations(cadata=authority)
        with tempfile.NamedTemporaryFile("w", suffix=".pem") as file:  # the library reads keys from files alone
            file.write(own.key + own.certificate)
            file.flush()
            made.load_cert_chain(file.name)
    except (ssl.SSLError, ValueError) as problem:
        why = "the key does not belong to the certificate" if "MISMATCH" in str(problem) else "they cannot be read"
        raise ConfigError(f"key and certificate are of no use: {why}; ask for a new invitation") from None
    return made


def write_private(path: Path, text: str) -> None:
    """A file that only its owner can read, from its first byte on."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)


def write_invitation(invitation: Invitation, path: Path) -> None:
    write_private(path, tomli_w.dumps(asdict(invitation), multiline_strings=True))


def read_invitation(path: Path) -> Invitation:
    table = read_toml(path)
    if "key" not in table or "pin" not in table:
        raise ConfigError(f"{path} is no invitation; `fedqa coordinator init` writes one for each silo")
    invitation = from_table(Invitation, table, str(path))
    address_of(invitation.coordinator)
    return invitation


def address_of(text: str) -> tuple[str, int]:
    """Host and port of `host:port`; an IPv6 address stands in brackets."""
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdigit() or not 0 <= int(port) <= 65535 or not host.strip("[]"):
        raise ConfigError(f"an address is host:port, such as coordinator.example.org:8765, got {text!r}")
    return host.strip("[]"), int(port)


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, days: float
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    begin = now - _SKEW if days > 0 else now + timedelta(days=days) - _SKEW
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(begin)
        .not_valid_after(now + timedelta(days=days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _pair(key: ec.EllipticCurvePrivateKey, certificate: x509.Certificate) -> Pair:
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return Pair(pem.decode(), certificate.public_bytes(serialization.Encoding.PEM).decode())
