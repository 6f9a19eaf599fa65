"""Converts the Base64 text that Storm 1.0 and 1.1 wrote to Redis to the binary state that Storm 1.2 reads.

`python -m anchorbolt.migration_tools.base64_to_binary` is the same as `anchorbolt migrate base64-to-binary`.
"""

from typing import TYPE_CHECKING

from anchorbolt.util.imports import lazy_names

if TYPE_CHECKING:
    from anchorbolt.migration_tools.base64_to_binary.commands import discard_backup, migrate, undo, verify
    from anchorbolt.migration_tools.base64_to_binary.conversion import MigrationOptions, Wrapper
    from anchorbolt.migration_tools.base64_to_binary.results import (
        Action,
        HashResult,
        Interrupted,
        NamespaceResult,
        Report,
    )
    from anchorbolt.storm.kryo.stored_form import Content

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

_PACKAGE = "anchorbolt.migration_tools.base64_to_binary"

# The command line needs two of these names for its options. Lazy names keep its help from loading a Redis driver.
__getattr__ = lazy_names(
    __name__,
    {
        **dict.fromkeys(("discard_backup", "migrate", "undo", "verify"), f"{_PACKAGE}.commands"),
        **dict.fromkeys(("Action", "HashResult", "Interrupted", "NamespaceResult", "Report"), f"{_PACKAGE}.results"),
        "Content": "anchorbolt.storm.kryo.stored_form",
        "MigrationOptions": f"{_PACKAGE}.conversion",
        "Wrapper": f"{_PACKAGE}.conversion",
    },
)
