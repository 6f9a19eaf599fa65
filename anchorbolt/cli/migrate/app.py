"""The group of commands `anchorbolt migrate …`."""

from anchorbolt.cli.app import App
from anchorbolt.cli.migrate.base64 import EXIT_CODES, base64_to_binary, discard_backup, undo
from anchorbolt.cli.migrate.copy import copy

app = App("Move state between stores and formats.")
app.command("base64-to-binary", epilog=EXIT_CODES)(base64_to_binary)
app.command(epilog=EXIT_CODES)(undo)
app.command("discard-backup", epilog=EXIT_CODES)(discard_backup)
app.command()(copy)
