"""`python -m tests.crash.dead_letters --rows 1000000 --poison 1000 --kills N`: the large run, with a report."""

from enum import Enum
from typing import Annotated

import typer

from tests.crash.dead_letters.runs import Letters, LettersRun
from tests.crash.deaths.plan import WEIGHTS, Victim, plan
from tests.crash.deaths.report import run_campaign
from tests.crash.deaths.runs import Wanted


class Spouts(Enum):
    STREAM = "stream"
    RELIABLE = "reliable"


def main(
    rows: Annotated[int, typer.Option(help="How many rows.")] = 1_000_000,
    poison: Annotated[int, typer.Option(help="How many of them a bolt fails, or raises on.")] = 1000,
    deadly: Annotated[int, typer.Option(help="On how many others a bolt kills its own process.")] = 0,
    kills: Annotated[int, typer.Option(help="How many SIGKILLs.")] = 20,
    seed: Annotated[int, typer.Option(help="Decides the rows, the moments and the victims.")] = 1,
    spout: Annotated[Spouts, typer.Option(help="A stream spout reads text files, a reliable one a Redis stream.")] = (
        Spouts.STREAM
    ),
    store: Annotated[str, typer.Option(help="Where the state is: redis, or sqlite.")] = "redis",
    letters: Annotated[str, typer.Option(help="Where the dead letters go: directory, or redis.")] = "directory",
    files: Annotated[int, typer.Option(help="How many files a stream spout reads, one in each wave.")] = 40,
    rows_per_wave: Annotated[int, typer.Option(help="How many rows a wave of a reliable spout has at most.")] = 8000,
    keep: Annotated[bool, typer.Option(help="Keep the logs, also where nothing is wrong.")] = False,
    timeout: Annotated[float, typer.Option(help="Seconds after which the run counts as hanging.")] = 3600.0,
) -> None:
    """Kill workers, drivers and Redis at random moments, and prove that each poison row is a dead letter once."""
    if store not in ("redis", "sqlite"):
        raise typer.BadParameter(f"{store} is neither redis nor sqlite")
    if letters not in ("directory", "redis"):
        raise typer.BadParameter(f"{letters} is neither directory nor redis")
    if letters == "redis" and store != "redis":
        raise typer.BadParameter("dead letters go to the Redis of the state provider: --store redis")
    uses_redis = store == "redis" or spout is Spouts.RELIABLE
    weights = {victim: weight for victim, weight in WEIGHTS.items() if uses_redis or victim is not Victim.REDIS}
    wanted = Wanted(seed, rows, plan(seed, kills, rows, weights=weights), store, timeout_s=timeout)
    which = Letters(poison, deadly, spout is Spouts.RELIABLE, letters == "redis", files, rows_per_wave)
    run_campaign(lambda home, say: LettersRun(home, wanted, which, say).run(), keep=keep)


if __name__ == "__main__":
    typer.run(main)
