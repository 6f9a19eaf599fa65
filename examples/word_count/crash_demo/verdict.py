"""Compares the job's state and its sink with an independent count of the same text."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow.compute as pc
import pyarrow.dataset as ds

__all__ = ["Verdict", "judge"]

_SHOWN = 5


@dataclass(frozen=True)
class Verdict:
    """The result of the comparison; each list names a few of the words that differ.

    Attributes:
        words: Words in the text.
        distinct: Distinct words in the text.
        state: Differences between the state and the independent count.
        sink: Words for which the sink does not hold each count from 1 to the last exactly once.
        sink_rows: Rows in the sink.
    """

    words: int
    distinct: int
    state: list[str]
    sink: list[str]
    sink_rows: int

    @property
    def equal(self) -> bool:
        """Whether the job's result is right."""
        return not self.state and not self.sink


def judge(expected: Mapping[str, int], state: Mapping[str, int], sink: Path) -> Verdict:
    """Compare the state, and the Parquet files of the sink, with the expected counts."""
    rows = ds.dataset(sink, format="parquet").to_table(columns=["word", "count"])
    grouped = rows.group_by("word").aggregate(
        [("count", "count"), ("count", "count_distinct"), ("count", "min"), ("count", "max")]
    )
    held = dict(
        zip(
            grouped["word"].to_pylist(),
            zip(
                *(grouped[f"count_{each}"].to_pylist() for each in ("count", "count_distinct", "min", "max")),
                strict=True,
            ),
            strict=True,
        )
    )
    return Verdict(
        words=sum(expected.values()),
        distinct=len(expected),
        state=_differences(dict(expected), dict(state), "count"),
        # n rows, n distinct counts, from 1 to n: each of 1..n once.
        sink=_differences({word: (n, n, 1, n) for word, n in expected.items()}, held, "rows, distinct, min, max"),
        sink_rows=pc.count(rows["word"], mode="all").as_py(),
    )


def _differences(expected: Mapping[str, object], found: Mapping[str, object], what: str) -> list[str]:
    wrong = sorted(word for word in {*expected, *found} if expected.get(word) != found.get(word))
    shown = [f"{word!r}: {what} {found.get(word)}, expected {expected.get(word)}" for word in wrong[:_SHOWN]]
    return [*shown, f"and {len(wrong) - _SHOWN} more"] if len(wrong) > _SHOWN else shown
