"""What all commands share: their output, their errors, their log, and the exit code of one that starts no topology."""

import functools
import json
import logging
import os
import sys
import traceback
from collections.abc import Callable, Mapping
from typing import Any

import typer

from anchorbolt.cli.exit_codes import DONE, LEFT_AT_ONCE, exit_code
from anchorbolt.errors import AnchorboltError


def with_exit_code(command: Callable[..., int]) -> Callable[..., None]:
    """Make a command for Typer of a function with the parameter `as_json`; `run_command` runs the function."""

    @functools.wraps(command)
    def run(**given: Any) -> None:
        raise run_command(functools.partial(command, **given), as_json=given["as_json"])

    return run


def run_command(
    command: Callable[[], int],
    *,
    as_json: bool,
    interrupted: str = "interrupted",
    failed: Mapping[str, Any] | None = None,
) -> typer.Exit:
    """Run `command`, which returns an exit code, and return the exception that ends the process.

    An error is printed to standard error; with `as_json` also to standard output, as `{**failed, "error": …}`.
    `interrupted` is the message after Ctrl-C.
    """
    set_up_logging(verbose=False)
    try:
        code = command()
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
        if as_json:
            print_line(json.dumps({**(failed or {}), "error": str(error)}, indent=2 if failed else None))
        sys.stdout.flush()
        print_error(str(error))
        code = exit_code(error, running=False)
    return typer.Exit(code)


def print_line(text: str) -> None:
    """Write a line to standard output."""
    sys.stdout.write(f"{text}\n")


def drop_output() -> None:
    """Send standard output nowhere from now on: its reader has closed the pipe."""
    with open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), sys.stdout.fileno())


def print_error(text: str) -> None:
    """Write a message to standard error. Control characters, of a namespace's name for example, are escaped."""
    from anchorbolt.migration_tools.inspect.json_format import printable  # --help must not wait for this import

    sys.stderr.write("".join(f"{printable(line.expandtabs())}\n" for line in text.split("\n")))
    sys.stderr.flush()


def set_up_logging(*, verbose: bool) -> None:
    """Send log records to standard error: warnings, and with `verbose` Anchorbolt's own from INFO on.

    Without `verbose`, py4j's records of exceptions are left out, since the command prints the error itself. A root
    logger that already has a handler stays as it is.
    """
    logging.basicConfig(
        level=logging.WARNING, format="%(asctime)s %(levelname)s %(name)s: %(message)s", handlers=[_StandardError()]
    )
    logging.getLogger("anchorbolt").setLevel(logging.INFO if verbose else logging.WARNING)
    logging.getLogger("py4j").setLevel(logging.WARNING if verbose else logging.CRITICAL)


class _StandardError(logging.StreamHandler):  # type: ignore[type-arg]  # Python 3.10 cannot subscript it
    """Looks up `sys.stderr` for each record, so that the live display can print the record above its own line."""

    def emit(self, record: logging.LogRecord) -> None:
        self.stream = sys.stderr
        super().emit(record)
