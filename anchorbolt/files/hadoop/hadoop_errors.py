"""Translates Hadoop's exceptions, raised by py4j, to Python's."""

from collections.abc import Iterator
from contextlib import contextmanager

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]

from anchorbolt.files import FileSystemGone

_KINDS: dict[str, type[OSError]] = {
    "java.io.FileNotFoundException": FileNotFoundError,
    "java.nio.file.NoSuchFileException": FileNotFoundError,
    "org.apache.hadoop.fs.FileAlreadyExistsException": FileExistsError,
    "org.apache.hadoop.security.AccessControlException": PermissionError,
    "java.nio.file.AccessDeniedException": PermissionError,
    "org.apache.hadoop.fs.s3a.UnknownStoreException": FileSystemGone,
}


@contextmanager
def hadoop_errors() -> Iterator[None]:
    """Raise `OSError` for an exception of Hadoop. Errors of a dead JVM pass through: they explain more."""
    try:
        yield
    except Py4JJavaError as error:
        thrown = error.java_exception
        name = thrown.getClass().getName()
        kind = _KINDS.get(name, OSError)
        text = (thrown.getMessage() or "").strip().partition("\n")[0]
        raise kind(f"{name.rpartition('.')[2]}: {text}" if text else name) from error
