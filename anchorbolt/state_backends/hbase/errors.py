"""Translates the errors of HBase's Thrift server, and of the connection to it, to Anchorbolt's errors."""

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
"""Errors that the server sends in a complete message: the connection can be used again."""

FAILURES = (TException, ProtocolError, OSError, EOFError)
"""Everything that a call can raise. After an error that is not in `ANSWERS`, the connection must be dropped."""

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
    """Return whether the same call would fail again in the same way."""
    if isinstance(error, IllegalArgument | AlreadyExists | TApplicationException | ssl.SSLError):
        return True
    return isinstance(error, HBaseIOError) and any(sign in text_of(error) for sign in _LASTING)


def is_missing_table(error: Exception) -> bool:
    return isinstance(error, HBaseIOError) and "TableNotFoundException" in text_of(error)


def is_existing_table(error: Exception) -> bool:
    # Two creations at once: the later one fails in the master, with another error than AlreadyExists.
    return isinstance(error, AlreadyExists) or "TableExistsException" in text_of(error)


def text_of(error: Exception) -> str:
    """Return what an error says, without the Java stack that HBase adds to it."""
    message: Any = getattr(error, "message", None) or str(error) or type(error).__name__
    if isinstance(message, bytes):
        message = message.decode("utf-8", "replace")
    return str(message).partition("\n")[0][:500]


def translated(
    error: Exception, server: str, table: str, family: str, timeout_ms: int, namespace: str | None
) -> AnchorboltError:
    """Return Anchorbolt's error for an error of the driver; its message ends with the next action."""
    text = text_of(error)
    error_class, advice = next(
        (error_class, advice)
        for types, sign, error_class, advice in _TRANSLATIONS
        if isinstance(error, types) and sign in text
    )
    message = advice.format(server=server, table=table, family=family, timeout_ms=timeout_ms, text=text)
    if error_class is ConfigError:
        return ConfigError(message, key=PROVIDER_CONFIG)
    refused: AnchorboltError = error_class(message, namespace=namespace)
    return refused


_TOO_LARGE = (
    "{server} refused ({text}): if a size is the reason, raise hbase.client.keyvalue.maxsize and "
    "hbase.server.keyvalue.maxsize there, or keep less under one key"
)
_UNREACHABLE = (
    "{server} cannot be reached ({text}): check that the Thrift server runs, host and port, and that transport "
    "(buffered or framed) and protocol are the server's; a framed server also closes the connection on a message above "
    "its hbase.regionserver.thrift.framed.max_frame_size_in_mb"
)
# Type of the error, a sign in its text, Anchorbolt's error and its message. The first row that matches counts.
_TRANSLATIONS: tuple[tuple[Any, str, Any, str], ...] = (
    (
        Exception,
        "TableNotFoundException",
        ConfigError,
        "{server} has no table {table!r}. Create it in the HBase shell: create '{table}', '{family}'; or set "
        "createTable to true",
    ),
    (
        Exception,
        "NoSuchColumnFamilyException",
        ConfigError,
        "the table {table!r} of {server} has no column family {family!r}. Name another one in columnFamily, or "
        "add it in the HBase shell: alter '{table}', '{family}'",
    ),
    (
        Exception,
        "TableNotEnabledException",
        StateUnavailable,
        "{server} has disabled the table {table!r}: enable it in the HBase shell: enable '{table}'",
    ),
    (
        Exception,
        "AccessDeniedException",
        ConfigError,
        "{server} does not permit it ({text}): grant its user RW on the table {table!r}",
    ),
    (IllegalArgument, "", StateError, _TOO_LARGE),
    (Exception, _MUTATION_TOO_LARGE, StateError, _TOO_LARGE),
    (
        TApplicationException,
        "",
        StateError,
        "{server} failed in a call ({text}): the log of the Thrift server says why. Anchorbolt needs HBase 2 with its "
        "Thrift 1 server",
    ),
    (
        (HBaseIOError, AlreadyExists),
        "",
        StateUnavailable,
        "{server} could not do it now ({text}): check that the master and the region servers run; then try again",
    ),
    (
        TimeoutError,
        "",
        StateUnavailable,
        "{server} did not answer within {timeout_ms} ms: check that HBase runs behind its Thrift server and that "
        "transport (buffered or framed) and protocol are the server's, or raise the timeout",
    ),
    (
        ssl.SSLError,
        "",
        StateUnavailable,
        "{server} cannot be reached by TLS ({text}): check the certificates and that the server uses TLS",
    ),
    (TTransportException, "", StateUnavailable, _UNREACHABLE),
    (
        (ProtocolError, TException),
        "",
        StateUnavailable,
        "{server} does not answer as HBase's Thrift server does ({text}): check host, port, transport and protocol",
    ),
    (Exception, "", StateUnavailable, _UNREACHABLE),
)
