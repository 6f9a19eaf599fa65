"""The commands `anchorbolt dead-letters list` and `replay`."""

import sys
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from anchorbolt.cli.command import App, Conf, Json, Overrides, option, print_line, with_exit_code
from anchorbolt.cli.exit_codes import DONE
from anchorbolt.errors import ConfigError
from anchorbolt.util.messages import counted

if TYPE_CHECKING:
    from anchorbolt.checkpoint.letters.letter_store import LetterStore

app = App("List the tuples that a topology has left out because they failed for good, or feed them back in.")

Place = Annotated[
    str,
    typer.Argument(
        metavar="PLACE", show_default=False, help="The run's topology.dead.letter: a directory, or redis-stream:KEY."
    ),
]


@app.command("list")
@with_exit_code
def list_letters(place: Place, conf: Conf = None, overrides: Overrides = None, as_json: Json = False) -> int:
    """List the dead letters that do not wait for a replay; with --json, one JSON object per line."""
    from anchorbolt.checkpoint.letters.letter_store import letters_of

    store, absent = _opened(place, conf, overrides)
    if absent:
        sys.stderr.write(f"{absent}\n")
        return DONE
    names = store.names()
    for name in names:
        for txid, letter in letters_of(store, name):
            if as_json:
                print_line(letter.as_json(txid))
                continue
            at = datetime.fromtimestamp(letter.at).astimezone().isoformat(" ", "seconds")
            print_line(f"txid {txid}  {at}  {letter.content}  tried {counted(letter.tries, 'time')}  {letter.cause}")
    if as_json:
        return DONE
    waiting = sum(len(letters_of(store, name, waiting=True)) for name in store.waiting())
    if waiting:
        sys.stderr.write(f"{_waiting(waiting)} to be processed again\n")
    if not names:
        sys.stderr.write(f"there are no {'other ' if waiting else ''}dead letters in {store.location}\n")
    return DONE


@app.command()
@with_exit_code
def replay(
    place: Place,
    conf: Conf = None,
    overrides: Overrides = None,
    txids: Annotated[
        list[int] | None, option("--txid", metavar="N", help="Only letters of wave N. May be repeated.")
    ] = None,
    as_json: Json = False,
) -> int:
    """Let the topology process dead letters again, in its current run or in its next one."""
    from anchorbolt.checkpoint.letters.letter_store import letters_of

    store, absent = _opened(place, conf, overrides)
    if absent:
        raise ConfigError(absent)
    found = {name: letters_of(store, name) for name in store.names()}
    if txids:
        wanted = set(txids)
        missing = wanted - {txid for letters in found.values() for txid, _ in letters}
        if missing:
            raise ConfigError(
                f"there are no dead letters of txid {', '.join(map(str, sorted(missing)))} in {store.location}. "
                "List them."
            )
        found = {name: letters for name, letters in found.items() if wanted.intersection(txid for txid, _ in letters)}
    batches = [str(letter.values[0]) for letters in found.values() for _, letter in letters if letter.is_batch]
    if batches:
        raise ConfigError(
            f"batch {', '.join(batches)} of a transactional topology cannot be replayed: batches commit once, and in "
            "their order. Read the tuples from the source again, from where the metadata in the letter says. Nothing "
            "was changed. Name the other letters by --txid."
        )
    store.replay(list(found))
    count = sum(map(len, found.values()))
    print_line(f'{{"replayed": {count}}}' if as_json else f"{_waiting(count)} to be processed again")
    return DONE


def _waiting(number: int) -> str:
    return f"{counted(number, 'dead letter')} {'waits' if number == 1 else 'wait'}"


def _opened(place: str, conf: Path | None, overrides: list[str] | None) -> tuple["LetterStore", str]:
    """Return the letters, and the reason why the run's letters may be missing: empty if their location exists."""
    from anchorbolt.checkpoint.letters.letter_folder import LetterFolder
    from anchorbolt.checkpoint.letters.letter_store import REDIS_STREAM, letter_store
    from anchorbolt.cli.places import ANOTHER_FILE_SYSTEM, open_place
    from anchorbolt.config.loading import load_conf

    settings = load_conf(file=conf, overrides=overrides or ()).settings
    if not place.startswith(REDIS_STREAM):
        folder = open_place(place)
        missing = (
            "" if folder.exists("") else f"{folder.location} does not exist on this machine. {ANOTHER_FILE_SYSTEM}."
        )
        return LetterFolder(folder), missing
    store = letter_store(place, settings.provider)
    assert store is not None, "only a function has no store"
    return store, ""
