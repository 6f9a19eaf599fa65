"""Certificates of a throw-away authority for the TLS tests."""

from dataclasses import dataclass
from pathlib import Path

import trustme


@dataclass(frozen=True)
class Certificates:
    """PEM files: the authority, a server on loopback, and a client."""

    authority: Path
    server_certificate: Path
    server_key: Path
    client_certificate: Path
    client_key: Path

    def of_client(self) -> dict[str, str]:
        """Return what a client's TLS settings name."""
        return {"ca": str(self.authority), "cert": str(self.client_certificate), "key": str(self.client_key)}


def make_certificates(directory: Path) -> Certificates:
    names = ("ca.pem", "server.pem", "server.key", "client.pem", "client.key")
    files = Certificates(*(directory / name for name in names))
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(files.authority))
    for certificate, key, name in (
        (files.server_certificate, files.server_key, ("localhost", "127.0.0.1")),
        (files.client_certificate, files.client_key, ("client.example",)),
    ):
        signed = authority.issue_cert(*name)
        key.touch(mode=0o600)
        signed.private_key_pem.write_to_path(str(key))
        signed.cert_chain_pems[0].write_to_path(str(certificate))
    return files
