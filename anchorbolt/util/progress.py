"""`Progress`: what long work tells whoever shows it."""


class Progress:
    """Receives steps, each over the entries of a hash or a namespace. This class discards them."""

    def begin(self, what: str, total: int | None) -> None:
        """Begin a step, and end the one before; `total` is its number of entries, if known."""

    def advance(self, entries: int) -> None:
        """Report that the step has processed `entries` more."""
