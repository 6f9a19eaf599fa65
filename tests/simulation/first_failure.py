"""Simulate seed after seed until one fails: `python -m tests.simulation.first_failure --seeds N`, for mutants."""

from __future__ import annotations

import argparse
import logging

from tests.simulation.simulate import run_seed


def main() -> None:
    """Print the first seed that fails, and what it breaks."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=1000)
    arguments = parser.parse_args()
    logging.disable(logging.CRITICAL)
    for seed in range(arguments.seeds):
        outcome = run_seed(seed)
        if outcome.failure:
            print(f"seed {seed}: {outcome.failure.splitlines()[0]}")
            return


if __name__ == "__main__":
    main()
