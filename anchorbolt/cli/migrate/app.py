"""The group of commands `anchorbolt migrate …`."""

import typer

from anchorbolt.cli.migrate.base64 import EXIT_CODES, base64_to_binary, discard_backup, undo
from anchorbolt.cli.migrate.copy import copy

app = typer.Typer(help="Move state between stores and formats.", no_args_is_help=True, pretty_exceptions_enable=False)
app.command("base64-to-binary", epilog=EXIT_CODES)(base64_to_binary)
app.command(epilog=EXIT_CODES)(undo)
app.command("discard-backup", epilog=EXIT_CODES)(discard_backup)
app.command()(copy)
