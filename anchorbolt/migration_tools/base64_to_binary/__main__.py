"""`python -m anchorbolt.migration_tools.base64_to_binary`: the same as `anchorbolt migrate base64-to-binary`."""

import typer

from anchorbolt.cli.migrate import base64_to_binary

__all__: list[str] = []

if __name__ == "__main__":
    command = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    command.command()(base64_to_binary)
    command(prog_name="python -m anchorbolt.migration_tools.base64_to_binary")
