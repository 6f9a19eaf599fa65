"""Typer applications whose help shows a flag as a flag: Typer 0.29 writes `<bool>` behind it."""

from collections.abc import Callable
from typing import Any, TypeVar

import typer
from typer.core import TyperCommand, TyperGroup

_F = TypeVar("_F", bound=Callable[..., Any])


def _without_types(params: list[Any]) -> list[Any]:
    for each in params:
        if getattr(each, "is_flag", False):
            each.metavar = ""
    return params


class _Command(TyperCommand):
    def get_params(self, ctx: Any) -> list[Any]:
        return _without_types(super().get_params(ctx))


class _Group(TyperGroup):
    def get_params(self, ctx: Any) -> list[Any]:
        return _without_types(super().get_params(ctx))


class App(typer.Typer):
    """A group of commands; without a sub-command it prints its help."""

    def __init__(self, help: str | None = None, *, add_completion: bool = True) -> None:
        # Typer's own tracebacks can show the values of variables, and so a password.
        super().__init__(
            help=help, cls=_Group, no_args_is_help=True, add_completion=add_completion, pretty_exceptions_enable=False
        )

    def command(self, name: str | None = None, **more: Any) -> Callable[[_F], _F]:
        """Register a command, as `typer.Typer.command` does."""
        return super().command(name, cls=_Command, **more)
