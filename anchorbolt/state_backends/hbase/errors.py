"""What HBase's Thrift server and the way to it can answer with, as Anchorbolt's errors. Decides nothing else."""

from __future__ import annotations

import ssl
from typing import Any

from anchorbolt.config.providers import PROVIDER_CONFIG
from anchorbolt.errors import AnchorboltError, ConfigError, StateError, StateUnavailable

try:
    import happybase  # noqa: F401 (it makes the module Hbase_thrift)
    from Hbase_thrift import AlreadyExists, IllegalArgument
    from Hbase_thrift import IOError as HBaseIOError
    from thriftpy2.protocol.cybin.cybin import ProtocolError
    from thriftpy2.thrift import TApplicationException, TException
    from thriftpy2.transport import TTransportException
except ImportError as missing:
    raise ConfigError(
        f"State in HBase needs packages that are not installed here ({missing}): pip install 'anchorbolt[hbase]', on "
        "the workers too.",
        key="topology.state.provider",
    ) from missing

ANSWERS = (HBaseIOError, IllegalArgument, AlreadyExists, TApplicationException)
"""What the server says in a whole message: the connection can be used again."""

FAILURES = (TException, ProtocolError, OSError, EOFError)
"""Everything that a call can raise, `ANSWERS` included. After one that is no answer, the connection must be dropped."""

# In the region server's words; the Thrift server's are an IllegalArgument.
_MUTATION_TOO_LARGE = "exceeds limit of"
_LASTING = (
    "TableNotFoundException",
    "NoSuchColumnFamilyException",
    "TableNotEnabledException",
    "AccessDeniedException",
    "KeyValue size too large",
    _MUTATION_TOO_LARGE,
)


def is_lasting(error: Exception) -> bool:
    """Return whether to repeat the call at once would give the same error."""
    if isinstance(error, IllegalArgument | AlreadyExists | TApplicationException | ssl.SSLError):
        return True
    return isinstance(error, HBaseIOError) and any(sign in text_of(error) for sign in _LASTING)


def is_missing_table(error: Exception) -> bool:
    """Return whether the table does not exist."""
    return isinstance(error, HBaseIOError) and "TableNotFoundException" in text_of(error)


def text_of(error: Exception) -> str:
    """Return what an error says, without the Java stack that HBase adds to it."""
    message: Any = getattr(error, "message", None) or str(error) or type(error).__name__
    if isinstance(message, bytes):
        message = message.decode("utf-8", "replace")
    return str(message).partition("\n")[0][:500]


def translated(
    error: Exception, server: str, table: str, family: str, timeout_ms: int, namespace: str | None
) -> AnchorboltError:
    """Return Anchorbolt's error for one of the driver's; its message ends with the next action."""
    text = text_of(error)
    too_large = _MUTATION_TOO_LARGE in text

    def unavailable(reason: str) -> StateUnavailable:
        return StateUnavailable(f"{server} {reason}", namespace=namespace)

    if "TableNotFoundException" in text:
        return ConfigError(
            f"{server} has no table {table!r}. Create it in the HBase shell: create '{table}', '{family}'; or set "
            "createTable to true",
            key=PROVIDER_CONFIG,
        )
    if "NoSuchColumnFamilyException" in text:
        return ConfigError(
            f"the table {table!r} of {server} has no column family {family!r}. Name another one in columnFamily, or "
            f"add it in the HBase shell: alter '{table}', '{family}'",
            key=PROVIDER_CONFIG,
        )
    if "TableNotEnabledException" in text:
        return unavailable(
            f"has disabled the table {table!r}: enable it in the HBase shell: enable '{table}'"
        )
    if "AccessDeniedException" in text:
        return ConfigError(
            f"{server} does not permit it ({text}): grant its user RW on the table {table!r}",
            key=PROVIDER_CONFIG,
        )
    if isinstance(error, IllegalArgument) or too_large:
        return StateError(
            f"{server} refused ({text}): where a size is meant, raise hbase.client.keyvalue.maxsize and "
            "hbase.server.keyvalue.maxsize there, or keep less under one key",
            namespace=namespace,
        )
    if isinstance(error, TApplicationException):
        return StateError(
            f"{server} failed in a call ({text}): the log of the Thrift server says why. HBase 2 with its Thrift 1 "
            "server is needed",
            namespace=namespace,
        )
    if isinstance(error, HBaseIOError | AlreadyExists):
        return unavailable(
            f"could not do it now ({text}): check that the master and the region servers run; try again then"
        )
    if isinstance(error, TimeoutError):
        return unavailable(
            f"did not answer within {timeout_ms} ms: check that HBase runs behind its Thrift server and that transport "
            "(buffered or framed) and protocol are the server's, or raise the timeout"
        )
    if isinstance(error, ssl.SSLError):
        return unavailable(
            f"cannot be reached by TLS ({text}): check the certificates and that TLS is on there"
        )
    if isinstance(error, ProtocolError) or (
        isinstance(error, TException) and not isinstance(error, TTransportException)
    ):
        return unavailable(
            f"does not answer as HBase's Thrift server does ({text}): check host, port, transport and protocol"
        )
    return unavailable(
        f"cannot be reached ({text}): check that the Thrift server runs, host and port, and that transport (buffered "
        "or framed) and protocol are the server's; a framed one also hangs up on a message above its "
        "hbase.regionserver.thrift.framed.max_frame_size_in_mb"
    )
