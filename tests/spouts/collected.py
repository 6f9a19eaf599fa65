"""A collector that records what a spout emits, and a spout that is run as the engine runs it, call by call."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import cloudpickle

from anchorbolt.spouts import BaseRichSpout
from anchorbolt.streams import TopologyContext

_DEADLINE_S = 30.0


class Collected:
    """Stands for `SpoutOutputCollector`."""

    def __init__(self) -> None:
        self.values: list[Any] = []
        self.ids: list[Any] = []

    def emit(self, values: Sequence[Any], msg_id: Any = None, *, stream: str = "default") -> Sequence[int]:
        assert stream == "default"
        self.values.append(values)
        self.ids.append(msg_id)
        return ()

    @property
    def emitted(self) -> list[tuple[Any, Any]]:
        return list(zip(self.ids, self.values, strict=True))


class Running:
    """A task of a spout between `open` and `close`."""

    def __init__(self, spout: BaseRichSpout, index: int, tasks: int, conf: Mapping[str, Any]) -> None:
        self.collected = Collected()
        self.spout: BaseRichSpout = cloudpickle.loads(cloudpickle.dumps(spout))
        context = TopologyContext("words", "lines", 7 + index, index, {"lines": tuple(range(7, 7 + tasks))})
        try:
            self.spout.open(conf, context, self.collected)  # type: ignore[arg-type]
        except BaseException:
            self.spout.close()
            raise
        self.spout.activate()

    def read(self, number: int) -> list[tuple[Any, Any]]:
        """Call `next_tuple` until so many tuples were emitted since the last call; return these: ids and values."""
        self.read_until(lambda: len(self.collected.ids) >= number)
        return self.taken()

    def read_until(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + _DEADLINE_S
        while not condition():
            self.spout.next_tuple()
            assert time.monotonic() < deadline, f"only {self.collected.emitted[:10]} was emitted"

    def read_times(self, number: int) -> list[tuple[Any, Any]]:
        """Call `next_tuple` so many times; return what was emitted."""
        for _ in range(number):
            self.spout.next_tuple()
        return self.taken()

    def taken(self) -> list[tuple[Any, Any]]:
        emitted = self.collected.emitted
        self.collected.values.clear()
        self.collected.ids.clear()
        return emitted

    def ack(self, *ids: Any) -> None:
        for id in ids:
            self.spout.ack(id)
        self.spout.flush_acks()

    def fail(self, *ids: Any) -> None:
        for id in ids:
            self.spout.fail(id)
        self.spout.flush_acks()


@contextmanager
def running(
    spout: BaseRichSpout, index: int = 0, tasks: int = 1, conf: Mapping[str, Any] | None = None
) -> Iterator[Running]:
    """Run a task of a spout. It ends as if its driver was killed, except that its connections are closed."""
    task = Running(spout, index, tasks, conf or {})
    try:
        yield task
    finally:
        task.spout.close()
