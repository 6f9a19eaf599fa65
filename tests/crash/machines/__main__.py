"""`python -m tests.crash.machines --place hdfs --kills 30 --seed N`: the large run, with a report."""

import shutil
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from tests.crash.machines.campaign import PLACES, campaign
from tests.crash.machines.kills import Kills


def main(
    place: Annotated[str, typer.Option(help=f"Where its data are: {', '.join(PLACES)}.")] = "directory",
    kills: Annotated[int, typer.Option(help="How many SIGKILLs.")] = 30,
    seed: Annotated[int, typer.Option(help="Decides the words, the moments and the victims.")] = 1,
    machines: Annotated[int, typer.Option(help="How many machines.")] = 2,
) -> None:
    """Kill machines, executors, workers, drivers and servers at random, and count what is lost or there twice."""
    if place not in PLACES:
        raise typer.BadParameter(f"{place} is none of {', '.join(PLACES)}")
    home = Path(tempfile.mkdtemp(prefix="anchorbolt-machines-"))
    with campaign(home, place, machines=machines) as (run, hdfs, kafka):
        struck = Kills(run, seed, hdfs, kafka, partial(print, flush=True))
        struck.strike(kills)
    for text in struck.ended:
        print(f"ended by itself, and was started again: {text}")
    for text in struck.wrong:
        print(f"WRONG: {text}")
    if struck.wrong:
        print(f"See {home}")
    else:
        shutil.rmtree(home, ignore_errors=True)
    sys.exit(1 if struck.wrong else 0)


if __name__ == "__main__":
    typer.run(main)
