"""The transactional topologies that are simulated.

```
rows ─▶ mark ─┬─▶ pass ─┬─▶ partial ─▶ sum (committer, instance kept) ─┬─▶ below ─▶ count (stateful committer)
              │         ├─▶ keep (committer, tuples kept) ─────────────┘             ▲
              │         └─▶ below                                                    │
              └──────────────────────────────────────────────────────────────────────┘
```

A `Shape` may have only a part of it. If a scenario chains, `pass` is chained to `mark`, and `tail` to `sum`.
"""

from functools import lru_cache

from anchorbolt.topology.graph import Topology
from anchorbolt.transactional import TransactionalTopologyBuilder
from tests.simulation.topology import NAME
from tests.simulation.transactional import bolts
from tests.simulation.transactional.scenario import Shape, SpoutKind
from tests.simulation.transactional.spouts import SPOUTS

COUNTERS = 2
"""Tasks of the stateful committer."""


@lru_cache(maxsize=64)
def batch_topology(kind: SpoutKind, shape: Shape, emitters: int, *, chains: bool = False) -> Topology:
    """Return a topology."""
    builder = TransactionalTopologyBuilder(NAME, "rows", SPOUTS[kind](), emitters)
    builder.set_bolt("mark", bolts.Mark()).global_grouping("rows")
    if shape in (Shape.FULL, Shape.OUTSIDE, Shape.EARLY):
        passing = builder.set_bolt("pass", bolts.Pass())
        if chains:
            passing.none_grouping("mark")
        else:
            passing.global_grouping("mark")
    if shape in (Shape.FULL, Shape.EARLY):
        builder.set_bolt("partial", bolts.Partial(), 2).shuffle_grouping("pass")
    if shape is Shape.OUTSIDE:
        builder.set_bolt("outside", bolts.Outside()).global_grouping("pass")
    if shape is Shape.FULL:
        builder.set_bolt("sum", bolts.Sum()).global_grouping("partial")
        if chains:
            builder.set_bolt("tail", bolts.Tail()).none_grouping("sum").local_or_shuffle_grouping("sum", "executed")
        keep = builder.set_committer_bolt("keep", bolts.Keep())
        if chains:  # not to a bolt of the other phase
            keep.none_grouping("pass")
        else:
            keep.global_grouping("pass")
        below = builder.set_bolt("below", bolts.Below())
        below.global_grouping("pass").global_grouping("sum").global_grouping("sum", "executed").global_grouping("keep")
    if shape in (Shape.FULL, Shape.STATEFUL):
        count = builder.set_bolt("count", bolts.Count(), COUNTERS).fields_grouping("mark", "row")
        if shape is Shape.FULL:
            count.all_grouping("below")
    return builder.build_topology()
