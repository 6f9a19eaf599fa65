"""The secret of a run's workers, and their certificate if Spark encrypts its own connections."""

from __future__ import annotations

import datetime
import secrets

from pyspark.sql import SparkSession

from anchorbolt.engine.workers.gate import SECRET_BYTES
from anchorbolt.engine.workers.links import Secret
from anchorbolt.errors import ConfigError

_ENCRYPTS = ("spark.network.crypto.enabled", "spark.ssl.enabled", "spark.ssl.rpc.enabled")
_DAYS = 3650  # a run may last for years


def new_secret(session: SparkSession) -> Secret:
    """Return a new secret. Raises `ConfigError` if a certificate is needed and `cryptography` is not installed."""
    conf = session.sparkContext.getConf()
    asked = next((key for key in _ENCRYPTS if (conf.get(key) or "").lower() == "true"), None)
    return Secret(secrets.token_bytes(SECRET_BYTES), b"" if asked is None else _certificate(asked))


def _certificate(asked: str) -> bytes:
    try:
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes, serialization
        from cryptography.hazmat.primitives.asymmetric import ec
    except ImportError as error:
        raise ConfigError(
            f"{asked} is true, so the connections of workers that stay (topology.workers) must be encrypted, which "
            "needs the package cryptography on the driver. Run: pip install 'anchorbolt[encryption]'",
            key="topology.workers",
        ) from error
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "anchorbolt")])
    now = datetime.datetime.now(datetime.timezone.utc)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))  # clocks of machines differ
        .not_valid_after(now + datetime.timedelta(days=_DAYS))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return private + certificate.public_bytes(serialization.Encoding.PEM)
