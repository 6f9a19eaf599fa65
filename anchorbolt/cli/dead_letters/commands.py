"""The commands `anchorbolt dead-letters list` and `replay`."""

import sys
from datetime import datetime
from typing import Annotated

import typer

from anchorbolt.cli.command import App, option, print_line, with_exit_code
from anchorbolt.cli.exit_codes import DONE
from anchorbolt.errors import ConfigError

app = App("List the tuples that a topology has left out because they failed for good, or feed them back in.")

Directory = Annotated[
    str, typer.Argument(metavar="DIRECTORY", show_default=False, help="The run's topology.dead.letter.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@app.command("list")
@with_exit_code
def list_letters(directory: Directory, as_json: Json = False) -> int:
    """List the dead letters that are not to be replayed; with --json, one JSON object per line."""
    from anchorbolt.checkpoint.letters.letter_folder import LetterFolder

    folder = LetterFolder(directory)
    names = folder.files()
    for name in names:
        for txid, letter in folder.letters(name):
            if as_json:
                print_line(letter.as_json(txid))
                continue
            at = datetime.fromtimestamp(letter.at).astimezone().isoformat(" ", "seconds")
            last_line = letter.reason.rstrip().rpartition("\n")[2]
            by = f"{letter.component}, task {letter.task_index}: " if letter.component else ""
            print_line(
                f"txid {txid}  {at}  {letter.spout}/{letter.stream} {letter.values!r}  tried {letter.tries} times  "
                f"{by}{last_line}"
            )
    if not names and not as_json:
        sys.stderr.write(f"there are no dead letters in {directory}\n")
    return DONE


@app.command()
@with_exit_code
def replay(
    directory: Directory,
    txids: Annotated[
        list[int] | None, option("--txid", metavar="N", help="Only those of this wave. May be repeated.")
    ] = None,
    as_json: Json = False,
) -> int:
    """Have the topology process dead letters again: in the run that goes on, or in its next one."""
    from anchorbolt.checkpoint.letters.letter_folder import LetterFolder

    folder = LetterFolder(directory)
    names = folder.files()
    if txids:
        wanted = {f"letters-{txid:012d}.jsonl": txid for txid in txids}
        missing = [str(txid) for name, txid in wanted.items() if name not in names]
        if missing:
            raise ConfigError(f"there are no dead letters of txid {', '.join(missing)} in {directory}. List them.")
        names = list(wanted)
    count = folder.replay(names)
    print_line(f'{{"replayed": {count}}}' if as_json else f"{count} dead letters wait to be processed again")
    return DONE
