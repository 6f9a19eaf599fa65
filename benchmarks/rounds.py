"""Runs the sides in turn over the same new text, round by round, and checks their counts. Prints nothing."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import median, quantiles
from typing import Protocol

from benchmarks.contestant import BatchFigures, Contestant, Counts
from benchmarks.workloads import Workload

__all__ = ["Case", "Result", "Text", "WrongCounts", "compare"]


class Text(Protocol):
    """What all sides read."""

    words: int  # written so far

    @property
    def counts(self) -> Counts:
        """What the sides must have counted."""

    def write(self, sentences: int, files: int) -> None:
        """Add one batch of so many lines, distributed evenly over so many files."""


@dataclass(frozen=True)
class Case:
    """One workload for some sides.

    Attributes:
        workload: What to run.
        text: The text, which only these sides read; none of it is written yet.
        sides: The sides.
        batches: By side, for each round that counts, its measured batches.
    """

    workload: Workload
    text: Text
    sides: Sequence[Contestant]
    batches: dict[str, list[list[BatchFigures]]] = field(default_factory=dict)


class WrongCounts(Exception):
    """A side's counts differ from the text's."""


@dataclass(frozen=True)
class Result:
    """The figures of one workload.

    Attributes:
        workload: The workload.
        batches: By side, for each round that counts, its measured batches.
        words: Words that each side counted in all rounds; `compare` has checked them against the text.
        distinct_words: Number of distinct words.
    """

    workload: Workload
    batches: dict[str, list[list[BatchFigures]]]
    words: int
    distinct_words: int

    def words_per_second(self, side: str) -> list[float]:
        """Return a side's words/s, round by round."""
        words = self.workload.words
        return [
            words * len(batches) * 1000 / sum(batch.trigger_ms for batch in batches) for batches in self.batches[side]
        ]

    def trigger_ms(self, side: str) -> list[float]:
        """Return a side's milliseconds from trigger to commit, batch by batch."""
        return [batch.trigger_ms for batches in self.batches[side] for batch in batches]

    def ninth_decile_ms(self, side: str) -> float:
        """Return the 90th percentile, in milliseconds."""
        times = self.trigger_ms(side)
        return quantiles(times, n=10)[-1] if len(times) > 1 else times[0]

    def medians(self, side: str, attribute: str) -> dict[str, float]:
        """Return the medians of a side's `parts_ms` or `phases_ms`, by name."""
        batches = [getattr(batch, attribute) for batches in self.batches[side] for batch in batches]
        return {name: median(batch.get(name, 0.0) for batch in batches) for name in batches[0]}

    def ratio(self, side: str, other: str, beside: "Result | None" = None) -> float:
        """Return a side's speed relative to the other's, there or in `beside`: the median of the rounds' ratios."""
        others = (beside or self).words_per_second(other)
        return median(a / b for a, b in zip(self.words_per_second(side), others, strict=True))


def compare(cases: Sequence[Case], tell: Callable[[str], None]) -> list[Result]:
    """Warm all sides up, run them in turn, and compare their counts with the texts'.

    Args:
        cases: The cases, which have the same number of rounds. A round runs the sides of one after another.
        tell: Called with a line about each run.

    Raises:
        WrongCounts: A side's state differs from the text's counts, or the side did not run all its batches.
    """
    for number in range(cases[0].workload.rounds + 1):
        for case in cases:
            _run(case, number, tell)
    for case in cases:
        for side in case.sides:
            _check_counts(side, case.text)
    return [Result(case.workload, case.batches, case.text.words, len(case.text.counts)) for case in cases]


def _run(case: Case, number: int, tell: Callable[[str], None]) -> None:
    workload, is_warm_up = case.workload, number == 0
    size = workload.warm_up_batches if is_warm_up else workload.dropped_batches + workload.measured_batches
    for _ in range(size):
        case.text.write(workload.sentences, workload.files)
    for side in case.sides:
        figures = side.run()
        if is_warm_up:
            tell(f"{workload.name}: {side.name} is warm")
            continue
        measured = figures[-workload.measured_batches :]
        _check_batches(workload, side, measured)
        case.batches.setdefault(side.name, []).append(measured)
        mean = sum(batch.trigger_ms for batch in measured) / len(measured)
        tell(f"{workload.name}: round {number}, {side.name}: {mean:,.0f} ms a batch")


def _check_batches(workload: Workload, side: Contestant, measured: Sequence[BatchFigures]) -> None:
    lines = [batch.lines for batch in measured]
    if lines != [workload.sentences] * workload.measured_batches:
        raise WrongCounts(
            f"{side.name} was to run {workload.measured_batches} batches of {workload.sentences} lines, but ran {lines}"
        )


def _check_counts(side: Contestant, text: Text) -> None:
    counts, expected = side.counts(), text.counts
    if counts != expected:
        wrong = next(word for word in {*counts, *expected} if counts.get(word) != expected.get(word))
        raise WrongCounts(
            f"{side.name} counted {sum(counts.values())} words, the text has {sum(expected.values())}; {wrong!r}, for "
            f"one, {counts.get(wrong)} times instead of {expected.get(wrong)}"
        )
