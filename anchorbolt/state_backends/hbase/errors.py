"""Translates the errors of HBase's Thrift server, and of the connection to it, to Anchorbolt's errors."""

import ssl
from typing import Any, NamedTuple

from anchorbolt.config.providers import PROVIDER_CONFIG, HBaseSettings
from anchorbolt.errors import ConfigError, StateError, StateUnavailable

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

_NO_TABLE = (
    "{server} has no table {table!r}. Create it in the HBase shell: create '{table}', '{column_family}'; or set "
    "createTable to true"
)
_NO_FAMILY = (
    "the table {table!r} of {server} has no column family {column_family!r}. Name another one in columnFamily, or add "
    "it in the HBase shell: alter '{table}', '{column_family}'"
)
_DISABLED = "{server} has disabled the table {table!r}: enable it in the HBase shell: enable '{table}'"
_NOT_PERMITTED = "{server} does not permit it ({text}): grant its user RW on the table {table!r}"
_TOO_LARGE = (
    "{server} refused ({text}): if a size is the reason, raise hbase.client.keyvalue.maxsize and "
    "hbase.server.keyvalue.maxsize there, or keep less under one key"
)
_FAILED = (
    "{server} failed in a call ({text}): the log of the Thrift server says why. Anchorbolt needs HBase 2 with its "
    "Thrift 1 server"
)
_NOT_NOW = "{server} could not do it now ({text}): check that the master and the region servers run; then try again"
_TIMED_OUT = (
    "{server} did not answer within {timeout_ms} ms: check that HBase runs behind its Thrift server and that "
    "transport (buffered or framed) and protocol are the server's, or raise the timeout"
)
_NO_TLS = "{server} cannot be reached by TLS ({text}): check the certificates and that the server uses TLS"
_OTHER_PROTOCOL = (
    "{server} does not answer as HBase's Thrift server does ({text}): check host, port, transport and protocol"
)
_UNREACHABLE = (
    "{server} cannot be reached ({text}): check that the Thrift server runs, host and port, and that transport "
    "(buffered or framed) and protocol are the server's; a framed server also closes the connection on a message above "
    "its hbase.regionserver.thrift.framed.max_frame_size_in_mb"
)


class _Translation(NamedTuple):
    types: Any  # types of the driver's error
    sign: str  # a part of its text
    is_lasting: bool  # the same call would fail again in the same way
    error_class: type[ConfigError | StateError]
    message: str


# The first matching row applies.
_TRANSLATIONS = (
    _Translation(Exception, "TableNotFoundException", True, ConfigError, _NO_TABLE),
    _Translation(Exception, "NoSuchColumnFamilyException", True, ConfigError, _NO_FAMILY),
    _Translation(Exception, "TableNotEnabledException", True, StateUnavailable, _DISABLED),
    _Translation(Exception, "AccessDeniedException", True, ConfigError, _NOT_PERMITTED),
    _Translation(IllegalArgument, "", True, StateError, _TOO_LARGE),
    _Translation(HBaseIOError, "KeyValue size too large", True, StateError, _TOO_LARGE),
    _Translation(HBaseIOError, "exceeds limit of", True, StateError, _TOO_LARGE),  # the region server's words
    _Translation(TApplicationException, "", True, StateError, _FAILED),
    _Translation((HBaseIOError, AlreadyExists), "", False, StateUnavailable, _NOT_NOW),
    _Translation(TimeoutError, "", False, StateUnavailable, _TIMED_OUT),
    _Translation(ssl.SSLError, "", True, StateUnavailable, _NO_TLS),
    _Translation(TTransportException, "", False, StateUnavailable, _UNREACHABLE),
    _Translation((ProtocolError, TException), "", False, StateUnavailable, _OTHER_PROTOCOL),
    _Translation(Exception, "", False, StateUnavailable, _UNREACHABLE),
)


def is_lasting(error: Exception) -> bool:
    """Return whether the same call would fail again in the same way."""
    return _translation(error).is_lasting


def is_missing_table(error: BaseException | None) -> bool:
    return isinstance(error, HBaseIOError) and "TableNotFoundException" in _text_of(error)


def is_existing_table(error: Exception) -> bool:
    # If two processes create the table at once, the later one fails in the master, and not with AlreadyExists.
    return isinstance(error, AlreadyExists) or "TableExistsException" in _text_of(error)


def translated(error: Exception, settings: HBaseSettings, namespace: str | None) -> ConfigError | StateError:
    """Return Anchorbolt's error for an error of the driver; its message ends with the next action."""
    found = _translation(error)
    message = found.message.format(**vars(settings), server=server_name(settings), text=_text_of(error))
    if issubclass(found.error_class, ConfigError):
        return ConfigError(message, key=PROVIDER_CONFIG)
    return found.error_class(message, namespace=namespace)


def server_name(settings: HBaseSettings) -> str:
    return f"HBase's Thrift server at {settings.host}:{settings.port}"


def _translation(error: Exception) -> _Translation:
    text = _text_of(error)
    return next(row for row in _TRANSLATIONS if isinstance(error, row.types) and row.sign in text)


def _text_of(error: Exception) -> str:
    """Return an error's text, without the Java stack trace that HBase adds."""
    message: Any = getattr(error, "message", None) or str(error) or type(error).__name__
    if isinstance(message, bytes):
        message = message.decode("utf-8", "replace")
    return str(message).partition("\n")[0][:500]
