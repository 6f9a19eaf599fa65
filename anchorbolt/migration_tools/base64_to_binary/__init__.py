"""Converts the Base64 text that Storm 1.0 and 1.1 wrote to Redis to the binary state that Storm 1.2 reads.

`python -m anchorbolt.migration_tools.base64_to_binary` is the same as `anchorbolt migrate base64-to-binary`.
"""

from typing import TYPE_CHECKING

from anchorbolt.migration_tools.base64_to_binary.conversion import (
    Action,
    HashResult,
    Interrupted,
    MigrationOptions,
    NamespaceResult,
    Report,
    Wrapper,
)
from anchorbolt.storm.kryo.stored_form import Content
from anchorbolt.util.imports import lazy_names

if TYPE_CHECKING:
    from anchorbolt.migration_tools.base64_to_binary.commands import discard_backup, migrate, undo, verify

__all__ = [
    "Action",
    "Content",
    "HashResult",
    "Interrupted",
    "MigrationOptions",
    "NamespaceResult",
    "Report",
    "Wrapper",
    "discard_backup",
    "migrate",
    "undo",
    "verify",
]

# The command line's help must not load a Redis driver.
__getattr__ = lazy_names(
    __name__, dict.fromkeys(("discard_backup", "migrate", "undo", "verify"), f"{__name__}.commands")
)
