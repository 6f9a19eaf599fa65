"""Whether the state and the sink of a run hold each row of its input once."""

import json

import numpy as np
import pyarrow.dataset as ds

from benchmarks.soak.job import Job


def wrong_in(job: Job) -> list[str]:
    """Return what is wrong; empty if the run was exact. The driver has ended."""
    counts: dict[str, int] = json.loads(job.path("state.json").read_text())
    waves = [line.split(",") for line in job.path("waves.csv").read_text().splitlines()]
    read = sum(int(wave[2]) for wave in waves)
    if job.source == "messages":
        expected = np.bincount(np.arange(read) % job.keys, minlength=job.keys)
        missing = sum(counts.get(f"w{key}", 0) != expected[key] for key in range(job.keys))
        return [f"{missing:,} of {job.keys:,} counts are wrong"] if missing else []
    sink = ds.dataset(job.path("sink")).to_table(columns=["row", "word", "count"])
    rows = np.sort(sink["row"].to_numpy())
    unique = np.unique(rows)
    wrong: list[str] = []
    if len(rows) != read:
        wrong.append(f"the waves read {read:,} rows, the sink has {len(rows):,}")
    if len(unique) != len(rows):
        wrong.append(f"{len(rows) - len(unique):,} rows of the sink are there twice")
    if len(unique) % job.rows or (unique.reshape(-1, job.rows)[:, 0] % job.rows).any():
        wrong.append("the sink does not have each file, or each batch of the source, as a whole")
    if job.source == "rate" and len(unique) != unique[-1] + 1:
        wrong.append(f"of the rows 0 to {unique[-1]:,} the sink has {len(unique):,}")
    expected = np.bincount(unique % job.keys, minlength=job.keys)
    stored = np.array([counts.get(f"w{key}", 0) for key in range(job.keys)])
    if (expected != stored).any():
        wrong.append(f"{(expected != stored).sum():,} of {job.keys:,} counts are wrong")
    if sum(counts.values()) != read:
        wrong.append(f"the waves read {read:,} rows, the counts add up to {sum(counts.values()):,}")
    pairs = sink.select(["word", "count"]).group_by(["word", "count"]).aggregate([])
    if len(pairs) != len(rows):
        wrong.append(f"{len(rows) - len(pairs):,} rows of the sink have a count that another row of their word has")
    return wrong
