"""What the commands of the migration return: plain data, for Python and for `--json`."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

from anchorbolt.errors import AnchorboltError


class Action(Enum):
    """What was done with one hash."""

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
    """What was done with one hash, or found in it.

    Attributes:
        key: Its name in Redis.
        action: What was done with it.
        entries: How many entries it has.
        content: What it held: `storm-1.0`, `storm-1.1`, `binary`; None where nobody looked.
        kept_as: The name under which what was there before is kept; None where there is no such thing.
        note: What else is to be known, as a sentence; empty where there is nothing.
    """

    key: str
    action: Action
    entries: int
    content: str | None = None
    kept_as: str | None = None
    note: str = ""


@dataclass(frozen=True)
class NamespaceResult:
    """What was done with one namespace.

    Attributes:
        namespace: Its name.
        hashes: What was done with each of its hashes; where there is an error, nothing was.
        error: Why it was not done; None where it was.
    """

    namespace: str
    hashes: tuple[HashResult, ...] = ()
    error: AnchorboltError | None = None


@dataclass(frozen=True)
class Report:
    """What a command did.

    Attributes:
        namespaces: What was done with each namespace, in the order in which they were named.
        warnings: What the user should know, as sentences.
        dry_run: Whether nothing was to be changed.
    """

    namespaces: tuple[NamespaceResult, ...]
    warnings: tuple[str, ...] = ()
    dry_run: bool = False

    @property
    def error(self) -> AnchorboltError | None:
        """The first error; None where all that was asked for has been done."""
        return next((each.error for each in self.namespaces if each.error is not None), None)

    def as_json(self) -> dict[str, Any]:
        """Return it as data for JSON."""
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
    """Ctrl-C in the course of a command.

    Attributes:
        report: What had been done by then; the other namespaces are in it with an error.
    """

    def __init__(self, report: Report) -> None:
        super().__init__("interrupted")
        self.report = report
