"""`python -m tests.crash.kafka --kills 30 --seed N`: many kills at random moments, from topic to topic."""

import tempfile
from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer

from tests.crash.kafka.random_kills import RandomKills
from tests.support.kafka_server import KafkaProgram, KafkaServer


def main(
    kills: Annotated[int, typer.Option(help="How many SIGKILLs.")] = 30,
    seed: Annotated[int, typer.Option(help="Decides the victims and the moments.")] = 1,
) -> None:
    """Kill driver, workers and Kafka at random moments, and prove that each message was sent exactly once."""
    with tempfile.TemporaryDirectory() as home:
        (Path(home) / "kafka").mkdir()
        with closing(KafkaServer(KafkaProgram.installed(), Path(home) / "kafka")) as server:
            server.start()
            run = RandomKills(server, Path(home) / "run", seed)
            wrong = run.run(kills)
    print(f"{dict(run.killed)}: {len(wrong)} counts are missing or there too often {wrong[:20]}")
    raise typer.Exit(1 if wrong else 0)


if __name__ == "__main__":
    typer.run(main)
