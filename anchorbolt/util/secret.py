"""A string that must not be shown: passwords and keys on their way from the configuration to a client library."""


class Secret:
    """Holds a secret string; `repr`, `str` and formatting show `***`. Pickles, so that it can reach Spark workers."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """Return the secret itself. Pass it directly to a client library."""
        return self._value

    def __repr__(self) -> str:
        return "***"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._value == self._value

    def __hash__(self) -> int:
        return hash(self._value)
