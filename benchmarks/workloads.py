"""The workloads: the size of the batches, where the counts go, and the number of rounds."""

from dataclasses import dataclass, replace
from enum import Enum

from benchmarks.zipf_text import WORDS_PER_SENTENCE

__all__ = ["EVERY", "HUGE", "LARGE", "TASKS", "WORKLOADS", "Output", "Workload"]

TASKS = 2
"""Of each component, and the processes of a peer: as many as cores."""


class Output(str, Enum):
    """Where the counts go, besides the state."""

    NONE = "none"
    """Two levels: split and count. Nothing takes what the counter emits."""

    DROPPED = "dropped"
    """Three levels: a third bolt gets every count and drops it."""

    PARQUET = "parquet"
    """Three levels: a running count for every word goes to Parquet files, exactly once."""


@dataclass(frozen=True)
class Workload:
    """One comparison.

    A round starts the query and runs it over `dropped_batches + measured_batches` new batches, until the source is
    empty. The first batches of a round reload state, so the figures leave them out.

    Attributes:
        name: Short name, for `--workload`.
        title: Title in the table.
        sentences: Sentences in a batch.
        files: Files in a batch; Spark reads each as one partition.
        output: Where the counts go.
        warm_up_batches: Batches of the first round, which is not measured.
        dropped_batches: Batches at the start of every other round that are not measured.
        measured_batches: Measured batches of every other round. At most 80: Spark keeps 100 progress reports.
        rounds: Number of measured rounds.
        split_tasks: Tasks of the splitting bolt.
        count_tasks: Tasks that count.
        value_bytes: Size of a value in the state, at least; 0 for a plain number.
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
    split_tasks: int = TASKS
    count_tasks: int = TASKS
    value_bytes: int = 0

    @property
    def words(self) -> int:
        """Words in a batch."""
        return self.sentences * WORDS_PER_SENTENCE

    @property
    def is_small(self) -> bool:
        """Whether the workload measures the time of a wave instead of words/s."""
        return self.sentences < 1_000

    def shortened(self) -> "Workload":
        """Return the same comparison with fewer batches, in as many rounds."""
        fewer = {"warm_up_batches": -(-self.warm_up_batches // 2), "dropped_batches": -(-self.dropped_batches // 2)}
        return replace(self, measured_batches=-(-self.measured_batches // 2), **fewer)

    def tiny(self) -> "Workload":
        """Return the same comparison with small batches and one round. Its figures say nothing about speed."""
        sentences = min(self.sentences, 200)
        return replace(self, sentences=sentences, warm_up_batches=1, dropped_batches=1, measured_batches=2, rounds=1)


WORKLOADS = (
    Workload("1m", "1 M words a batch", 100_000, 2, Output.NONE, 1, 1, 2, 3),
    Workload("4m", "4 M words a batch", 400_000, 2, Output.NONE, 1, 1, 1, 3),
    Workload("100k", "100 k words a batch", 10_000, 2, Output.NONE, 4, 4, 8, 3),
    Workload("1m-parquet", "1 M words a batch, Parquet", 100_000, 2, Output.PARQUET, 1, 1, 3, 3),
    Workload("20-lines", "20 lines a batch, three levels", 20, 1, Output.DROPPED, 200, 10, 40, 5),
    Workload("20-lines-parquet", "20 lines a batch, Parquet", 20, 1, Output.PARQUET, 40, 10, 20, 5),
)

HUGE = frozenset({"4m"})
"""For few sides, which are fast enough."""
EVERY = frozenset(known.name for known in WORKLOADS) - HUGE
LARGE = frozenset({"1m", "100k"})
"""For sides that are compared by words/s only."""
