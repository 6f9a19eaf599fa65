"""`python -m tests.crash.deaths --messages 1000000 --kills 40 --seed N`: the large run, with a report."""

from typing import Annotated

import typer

from tests.crash.deaths.plan import plan
from tests.crash.deaths.report import run_campaign
from tests.crash.deaths.runs import Run, Wanted


def main(
    messages: Annotated[int, typer.Option(help="How many messages, an even number.")] = 1_000_000,
    kills: Annotated[int, typer.Option(help="How many SIGKILLs.")] = 40,
    stops: Annotated[int, typer.Option(help="How many runs are stopped, besides.")] = 0,
    seed: Annotated[int, typer.Option(help="Decides the messages, the moments and the victims.")] = 1,
    store: Annotated[str, typer.Option(help="Where the state is: redis (that of the stream), or sqlite.")] = "redis",
    unstable: Annotated[bool, typer.Option(help="With message ids that are not stable.")] = False,
    late: Annotated[bool, typer.Option(help="With a bolt that acks late.")] = False,
    vectorised: Annotated[bool, typer.Option(help="With vectorised bolts.")] = False,
    chained: Annotated[bool, typer.Option(help="With chained bolts.")] = False,
    keep: Annotated[bool, typer.Option(help="Keep the logs, also where nothing is wrong.")] = False,
    timeout: Annotated[float, typer.Option(help="Seconds after which the run counts as hanging.")] = 3600.0,
) -> None:
    """Kill workers, drivers and Redis at random moments, and prove that each message was counted exactly once."""
    if store not in ("redis", "sqlite"):
        raise typer.BadParameter(f"{store} is neither redis nor sqlite")
    if late and unstable:
        # A pair that counted, and of which only one half was acked, would wait for ever for the other.
        raise typer.BadParameter("pairs need stable ids")
    planned = plan(seed, kills, messages, stops)
    wanted = Wanted(
        seed,
        messages,
        planned,
        store,
        late,
        stable=not unstable,
        timeout_s=timeout,
        vectorised=vectorised,
        chained=chained,
    )
    run_campaign(lambda home, say: Run(home, wanted, say).run(), keep=keep)


if __name__ == "__main__":
    typer.run(main)
