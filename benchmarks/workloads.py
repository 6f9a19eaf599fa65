"""What is measured: how large the batches are, what becomes of the counts, and how often. Measures nothing itself."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from zipf_text import WORDS_PER_SENTENCE

__all__ = ["WORKLOADS", "Output", "Workload"]


class Output(str, Enum):
    """What becomes of the counts, beside being kept in the state."""

    NONE = "none"
    """Two levels: split and count. Nothing takes what the counter emits."""

    DROPPED = "dropped"
    """Three levels: a third bolt gets every count and drops it."""

    PARQUET = "parquet"
    """Three levels: a running count for every word goes to Parquet files, exactly once."""


@dataclass(frozen=True)
class Workload:
    """One comparison.

    A round is a run over `dropped_batches + measured_batches` new batches, from a start of the query until the source
    is empty. The first batches of a round reload state and are left out of the figures.

    Attributes:
        name: Short name, for `--workload`.
        title: What the table calls it.
        sentences: Sentences in a batch.
        files: Files in a batch; Spark reads each as one partition.
        output: What becomes of the counts.
        warm_up_batches: Batches of the first round, of which none counts.
        dropped_batches: Batches at the start of every other round that do not count.
        measured_batches: Batches of every other round that count. At most 80: Spark keeps 100 progress reports.
        rounds: How many rounds count.
    """

    name: str
    title: str
    sentences: int
    files: int
    output: Output
    warm_up_batches: int
    dropped_batches: int
    measured_batches: int
    rounds: int

    @property
    def words(self) -> int:
        """Words in a batch."""
        return self.sentences * WORDS_PER_SENTENCE

    @property
    def is_small(self) -> bool:
        """Whether it is about the time of a wave, not about words/s."""
        return self.sentences < 1_000


WORKLOADS = (
    Workload("1m", "1 M words a batch", 100_000, 2, Output.NONE, 2, 1, 2, 3),
    Workload("100k", "100 k words a batch", 10_000, 2, Output.NONE, 5, 2, 6, 3),
    Workload("1m-parquet", "1 M words a batch, Parquet", 100_000, 2, Output.PARQUET, 1, 1, 1, 3),
    Workload("20-lines", "20 lines a batch, three levels", 20, 1, Output.DROPPED, 200, 10, 40, 5),
    Workload("20-lines-parquet", "20 lines a batch, Parquet", 20, 1, Output.PARQUET, 40, 10, 20, 5),
)
