"""Collects one task's additions to the tuple trees in one wave: one blob for each acker, at the wave's end."""

from collections import defaultdict
from collections.abc import Sequence
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from anchorbolt.tracking.blob import MOST_TASKS, Contribution, Failed, Opened, encode_blob
from anchorbolt.tracking.sorted_roots import NO_ROOTS, Roots, union_of, xor_by_root
from anchorbolt.util.messages import printable

_REASON_CHARACTERS = 4_000

Positions = NDArray[np.intp]
Shares = list[Positions | slice]


class Contributions:
    """The news of one task in one wave. Make a new object for each attempt. Not thread-safe.

    It keeps the arrays that it gets: do not change them.
    """

    def __init__(self) -> None:
        self._pairs: list[tuple[Roots, Roots]] = [(NO_ROOTS, NO_ROOTS)]
        self._held, self._expired = NO_ROOTS, NO_ROOTS
        self._reset: set[int] = set()
        self._failed: dict[int, tuple[str, int, str]] = {}
        self._causes: dict[tuple[str, int, str], tuple[str, int, str]] = {}
        self._opened: list[tuple[Roots, Sequence[bytes]]] = []

    def hold(self, roots: Roots, ids: Roots) -> None:
        """Add tuples that the task received in this wave and has neither acked nor failed.

        Args:
            roots: The roots of each tuple, one tuple after the other.
            ids: Beside each root, the tuple's id.
        """
        self._held = union_of([self._held, roots])
        self._pairs.append((roots, ids))

    def release(self, roots: Roots, ids: Roots) -> None:
        """Remove tuples that the task held since an earlier wave and acked in this wave: each once, as in `hold`."""
        self._pairs.append((roots, ids))

    def fail(self, root: int, component: str, task_index: int, reason_text: str) -> None:
        """Fail the tree of `root`; a task keeps only the first failure of a tree.

        Args:
            root: The tree.
            component: Id of the component that failed a tuple of the tree.
            task_index: Index of the task in the component.
            reason_text: The reason, for the log; cut after 4,000 characters.
        """
        if root not in self._failed:
            # Text of an exception may hold lone surrogates, which cannot be encoded.
            reason = printable(reason_text[:_REASON_CHARACTERS])
            cause = component, task_index, reason
            self._failed[root] = self._causes.setdefault(cause, cause)

    def reset(self, root: int) -> None:
        """Start the time-out of the tree of `root` again."""
        self._reset.add(root)

    def open_trees(self, roots: Roots, packed_msg_ids: Sequence[bytes]) -> None:
        """Open a tree for each message that the task, one of a spout, emitted.

        Args:
            roots: The roots, each new and different from all others.
            packed_msg_ids: For each root, the packed id of its message.
        """
        self._opened.append((roots, packed_msg_ids))

    def expire(self, roots: Roots) -> None:
        """Time out trees that are open since earlier waves."""
        self._expired = union_of([self._expired, roots])

    def blobs(self, ackers: int, task_id: int) -> list[bytes]:
        """Return a blob for each acker, in the order of their indices; without news, a blob takes a few bytes.

        Leaves out a root if its XOR is zero and there is no other news about it.

        Args:
            ackers: The number of ackers, from 1 to 65,535.
            task_id: The id of this task, below 65,536. The ledger stores it as the holder of the tuples that it holds,
                and as the spout's task of the trees that it opened.
        """
        assert 0 <= task_id < MOST_TASKS, f"task id {task_id} needs more than 2 bytes"
        roots, xors = xor_by_root(*map(np.concatenate, zip(*self._pairs, strict=True)))
        shares = _shares(roots, ackers)
        held = _divided(self._held, ackers)
        reset = _divided(_sorted(self._reset), ackers)
        expired = _divided(self._expired, ackers)
        failed = self._failed_by_acker(ackers)
        opened = self._opened_by_acker(ackers)
        return [
            encode_blob(
                Contribution(
                    task_id,
                    roots[shares[acker]],
                    xors[shares[acker]],
                    held[acker],
                    reset[acker],
                    expired[acker],
                    failed[acker],
                    opened[acker],
                )
            )
            for acker in range(ackers)
        ]

    def _failed_by_acker(self, ackers: int) -> list[list[Failed]]:
        by_cause: defaultdict[tuple[str, int, str], set[int]] = defaultdict(set)
        for root, cause in self._failed.items():
            by_cause[cause].add(root)
        by_acker: list[list[Failed]] = [[] for _ in range(ackers)]
        for cause, roots in by_cause.items():
            for failed, share in zip(by_acker, _divided(_sorted(roots), ackers), strict=True):
                if len(share):
                    failed.append(Failed(*cause, share))
        return by_acker

    def _opened_by_acker(self, ackers: int) -> list[Opened | None]:
        if not self._opened:
            return [None] * ackers
        roots = np.concatenate([each for each, _ in self._opened])
        msg_ids = [msg_id for _, each in self._opened for msg_id in each]
        assert len(roots) == len(msg_ids), "a tree was opened without a message id"
        return [_opened(roots[share], _chosen(msg_ids, share)) for share in _shares(roots, ackers)]


def _chosen(msg_ids: list[bytes], share: Positions | slice) -> list[bytes]:
    return msg_ids if isinstance(share, slice) else [msg_ids[place] for place in share.tolist()]


def _opened(roots: Roots, msg_ids: list[bytes]) -> Opened | None:
    if not msg_ids:
        return None
    bounds = np.fromiter(accumulate(map(len, msg_ids), initial=0), np.uint32, len(msg_ids) + 1)
    places = np.argsort(roots)
    return Opened(roots[places], places.astype(np.uint32), bounds, b"".join(msg_ids))


def _sorted(roots: set[int]) -> Roots:
    return np.sort(np.fromiter(roots, np.uint64, len(roots)))


def _shares(roots: Roots, ackers: int) -> Shares:
    """Return, for each acker, the positions of its roots in their order."""
    if ackers == 1:
        return [slice(None)]
    owners = (roots % np.uint64(ackers)).astype(np.uint16)
    order = np.argsort(owners, kind="stable")
    ends = np.cumsum(np.bincount(owners, minlength=ackers))[:-1]
    return list(np.split(order, ends))


def _divided(roots: Roots, ackers: int) -> list[Roots]:
    return [roots[share] for share in _shares(roots, ackers)]
