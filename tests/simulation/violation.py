"""What the simulation ends with if an invariant does not hold."""


class Violation(BaseException):
    """An invariant does not hold. No `except Exception` of the tested code may swallow it."""
