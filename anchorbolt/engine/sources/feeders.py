"""The feeder spouts of a test, and the batches that a wave takes from them."""

from collections.abc import Callable, Iterator

from anchorbolt.checkpoint.ports import Round
from anchorbolt.engine.plan.execution_plan import ExecutionPlan
from anchorbolt.engine.task.messages import Envelope
from anchorbolt.engine.task.spout_task import SourceRows, run_spout_task
from anchorbolt.spouts.feeder import FeederSpout
from anchorbolt.streams.declaration import DEFAULT_STREAM


class Feeders:
    """All feeder spouts of a topology; each has one task."""

    def __init__(self, plan: ExecutionPlan) -> None:
        self._plan = plan
        self._spouts = {id: spec.spout for id, spec in plan.graph.spouts.items() if isinstance(spec.spout, FeederSpout)}
        self._taken: dict[str, list[tuple[object, ...]]] = {}

    def __bool__(self) -> bool:
        return bool(self._spouts)

    def open(self, last_txid: int, on_feed: Callable[[], None]) -> None:
        """Settle what an earlier run has taken; call `on_feed` whenever a spout is fed."""
        self.settle(last_txid)
        for spout in self._spouts.values():
            spout.on_feed = on_feed

    @property
    def is_waiting(self) -> bool:
        return any(spout.is_waiting() for spout in self._spouts.values())

    def take(self, txid: int, *, only_empty: bool = False) -> None:
        """Take a batch of each spout for a wave; with `only_empty`, an empty one."""
        self._taken = {component: [] if only_empty else spout.take(txid) for component, spout in self._spouts.items()}

    def settle(self, txid: int) -> None:
        """Forget the batches of the last decided wave, `txid`; a later wave's go back to their spouts."""
        for spout in self._spouts.values():
            spout.settle(txid)
        self._taken = {}

    def run_tasks(self, current: Round) -> Iterator[Envelope]:
        """Yield the blobs of all tasks for the current wave. May be called in each of its rounds."""
        for component, batch in self._taken.items():
            columns = list(map(list, zip(*batch, strict=True))) or [[] for _ in self._spouts[component].fields]
            rows = [SourceRows(DEFAULT_STREAM, len(batch), columns)]
            yield from run_spout_task(self._plan, component, 0, current, rows)
