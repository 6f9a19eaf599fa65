"""Runs code that produces items all at once in a thread of its own, so that they can be taken one by one."""

import contextvars
import queue
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Generic, TypeVar

T = TypeVar("T")

_POLL_S = 0.1


class _Abandoned(BaseException):
    """Ends the producer's thread when nobody takes its items any more. Not an `Exception`: user code is inside."""


class _End:
    def __init__(self, error: BaseException | None) -> None:
        self.error = error


class Produced(Generic[T]):
    """The items that `produce` passes to its argument, in their order. At most `most` of them wait at a time."""

    def __init__(self, produce: Callable[[Callable[[T], None]], None], most: int) -> None:
        self._produce = produce
        self._items: queue.Queue[T | _End] = queue.Queue(most)
        self._abandoned = threading.Event()

    def __iter__(self) -> Iterator[T]:
        """Yield the items. Raises what `produce` raised, `SystemExit` as well."""
        context = contextvars.copy_context()
        thread = threading.Thread(target=context.run, args=(self._run,), name="anchorbolt-emitter", daemon=True)
        thread.start()
        try:
            while True:
                item = self._items.get()
                if isinstance(item, _End):
                    if item.error is not None:
                        raise item.error
                    return
                yield item
        finally:
            self._abandoned.set()

    def _run(self) -> None:
        error: BaseException | None = None
        try:
            self._produce(self._put)
        except _Abandoned:
            return
        except BaseException as raised:
            error = raised
        with suppress(_Abandoned):
            self._put(_End(error))

    def _put(self, item: "T | _End") -> None:
        while not self._abandoned.is_set():
            try:
                self._items.put(item, timeout=_POLL_S)
                return
            except queue.Full:
                continue
        raise _Abandoned
