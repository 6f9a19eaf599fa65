"""Tells the engine that a committer updates an outside store by a journal, which belongs to its task."""

import threading

_thread = threading.local()


def keep_journal() -> None:
    """Note that the bolt that runs on this thread keeps a journal."""
    _thread.kept = True


def journal_was_kept() -> bool:
    """Return whether a bolt has kept a journal on this thread since the last call."""
    kept, _thread.kept = getattr(_thread, "kept", False), False
    return kept
