"""Common to all commands: declaration, output, errors, log and exit codes."""

import functools
import json
import logging
import os
import sys
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
from typer.core import TyperCommand, TyperGroup

from anchorbolt.cli.exit_codes import DONE, LEFT_AT_ONCE, exit_code
from anchorbolt.errors import AnchorboltError

_F = TypeVar("_F", bound=Callable[..., Any])

option = functools.partial(typer.Option, show_default=False)

Location = Annotated[
    str | None,
    typer.Argument(
        metavar="[LOCATION]",
        show_default=False,
        help="The checkpoint location of the runs, as `anchorbolt run` prints it. Without it, "
        "topology.checkpoint.location of the configuration.",
    ),
]
Conf = Annotated[Path | None, option("--conf", metavar="FILE", help="Configuration of the runs, YAML or JSON.")]
Overrides = Annotated[
    list[str] | None,
    option(
        "--set",
        metavar="KEY=VALUE",
        help="Set one key, overriding the file. Not for passwords: use passwordEnv or passwordFile.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def _without_types(params: list[Any]) -> list[Any]:
    """Show a flag as a flag in the help: Typer 0.29 writes `<bool>` after it."""
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
        # Typer's own tracebacks can show the values of variables, such as a password.
        super().__init__(
            help=help, cls=_Group, no_args_is_help=True, add_completion=add_completion, pretty_exceptions_enable=False
        )

    def command(self, name: str | None = None, **more: Any) -> Callable[[_F], _F]:
        """Register a command, as `typer.Typer.command` does."""
        return super().command(name, cls=_Command, **more)


def with_exit_code(
    command: Callable[..., int], *, interrupted: str = "interrupted", failed: Mapping[str, Any] | None = None
) -> Callable[..., None]:
    """Convert a function that returns an exit code and starts no topology to a Typer command.

    An error is printed to standard error; if `command` has a parameter `as_json` and it is true, it is also printed to
    standard output, as `{**failed, "error": …}`. `interrupted` is the message after Ctrl-C.
    """

    @functools.wraps(command)
    def run(**given: Any) -> None:
        set_up_logging(verbose=False)
        try:
            code = command(**given)
            sys.stdout.flush()
        except BrokenPipeError:
            drop_output()
            code = DONE
        except KeyboardInterrupt:
            print_error(interrupted)
            code = LEFT_AT_ONCE
        except Exception as error:
            if not isinstance(error, AnchorboltError):
                traceback.print_exception(error)
            if given.get("as_json"):
                print_line(json.dumps({**(failed or {}), "error": str(error)}, indent=2 if failed else None))
            sys.stdout.flush()
            print_error(str(error))
            code = exit_code(error, running=False)
        raise typer.Exit(code)

    return run


def print_line(text: str) -> None:
    """Write a line to standard output."""
    sys.stdout.write(f"{text}\n")


def drop_output() -> None:
    """Discard all further standard output: its reader has closed the pipe."""
    with open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), sys.stdout.fileno())


def print_error(text: str) -> None:
    """Write a message to standard error. Control characters, for example in a namespace's name, are escaped."""
    from anchorbolt.util.values import printable  # --help must not wait for this import

    sys.stderr.write("".join(f"{printable(line.expandtabs())}\n" for line in text.split("\n")))
    sys.stderr.flush()


def set_up_logging(*, verbose: bool) -> None:
    """Send log records to standard error: warnings, and with `verbose` also Anchorbolt's records of level INFO.

    A root logger that already has a handler is not changed.
    """
    logging.basicConfig(
        level=logging.WARNING, format="%(asctime)s %(levelname)s %(name)s: %(message)s", handlers=[_StandardError()]
    )
    set_levels(verbose=verbose)


def set_levels(*, verbose: bool) -> None:
    """Set the levels of the log of a command.

    Without `verbose`, py4j's records of exceptions are left out, since the command prints the error itself.
    """
    logging.getLogger("anchorbolt").setLevel(logging.INFO if verbose else logging.WARNING)
    logging.getLogger("py4j").setLevel(logging.WARNING if verbose else logging.CRITICAL)


class _StandardError(logging.StreamHandler):  # type: ignore[type-arg]  # Python 3.10 cannot subscript it
    """Looks up `sys.stderr` for each record, so that the live display can print the record above its own line."""

    def emit(self, record: logging.LogRecord) -> None:
        self.stream = sys.stderr
        super().emit(record)
