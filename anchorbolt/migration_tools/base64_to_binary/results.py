"""The results of the migration's commands: plain data, for Python and for `--json`."""

from dataclasses import dataclass
from enum import Enum
from typing import Any

from anchorbolt.errors import AnchorboltError


class Action(Enum):
    """The result of a command for one hash; of a dry run, the result that it would have."""

    CONVERTED = "converted"
    WOULD_CONVERT = "would be converted"
    LEFT_BINARY = "binary already, left alone"
    CONVERTED_BEFORE = "converted by an earlier run, left alone"
    SAME = "equal to the conversion of its backup"
    DIFFERENT = "differs from the conversion of its backup"
    NOT_CONVERTED = "equal to its backup: not converted"
    PUT_BACK = "put back"
    WOULD_PUT_BACK = "would be put back"
    BACKUP_DISCARDED = "backup discarded"
    WOULD_DISCARD_BACKUP = "backup would be discarded"


@dataclass(frozen=True)
class HashResult:
    """The result for one hash.

    Attributes:
        key: The name of the hash in Redis.
        action: What the command did, or would do.
        entries: The number of entries.
        content: The format before the command: `storm-1.0`, `storm-1.1` or `binary`; None if it was not recognised.
        kept_as: The name of the hash that keeps the earlier data, or None.
        note: A sentence for the user, or an empty string.
    """

    key: str
    action: Action
    entries: int
    content: str | None = None
    kept_as: str | None = None
    note: str = ""


@dataclass(frozen=True)
class NamespaceResult:
    """The result for one namespace.

    Attributes:
        namespace: The name of the namespace.
        hashes: The results for its hashes; after an error nothing was done to them.
        error: Why nothing was done, or None.
    """

    namespace: str
    hashes: tuple[HashResult, ...] = ()
    error: AnchorboltError | None = None


@dataclass(frozen=True)
class Report:
    """The result of one command.

    Attributes:
        namespaces: The results in the order in which the caller named the namespaces.
        warnings: Sentences for the user.
        dry_run: Whether the command changed nothing on purpose.
    """

    namespaces: tuple[NamespaceResult, ...]
    warnings: tuple[str, ...] = ()
    dry_run: bool = False

    @property
    def error(self) -> AnchorboltError | None:
        """The first error, or None."""
        return next((each.error for each in self.namespaces if each.error is not None), None)

    def as_json(self) -> dict[str, Any]:
        """Return the report as plain data for `json.dumps`."""
        return {
            "done": self.error is None,
            "dry_run": self.dry_run,
            "warnings": list(self.warnings),
            "namespaces": [
                {
                    "namespace": each.namespace,
                    "error": None if each.error is None else each.error.message,
                    "hashes": [{**vars(one), "action": one.action.value} for one in each.hashes],
                }
                for each in self.namespaces
            ],
        }


class Interrupted(KeyboardInterrupt):
    """Ctrl-C during a command.

    Attributes:
        report: What the command had done by then. Each namespace that was not finished has an error.
    """

    def __init__(self, report: Report) -> None:
        super().__init__("interrupted")
        self.report = report
