"""The model of the ledger: keeps every tuple of every tree, and finds what is complete by following the anchors."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

Reason = tuple[str, int, str]


@dataclass(eq=False)
class Node:
    """One copy of a tuple, at the task that it was sent to."""

    id: int
    task: int
    roots: tuple[int, ...]  # as the blob carried them; the model does not use them
    wave: int
    children: list[Node] = field(default_factory=list)
    acked: bool = False
    failed: bool = False

    @property
    def pending(self) -> bool:
        return not self.acked and not self.failed


@dataclass(eq=False)
class Tree:
    root: int
    spout_task: int
    msg_id: bytes
    wave: int
    holder: int
    children: list[Node] = field(default_factory=list)
    open: bool = True

    def nodes(self) -> list[Node]:
        """Return all tuples that descend from the message."""
        found: dict[int, Node] = {}
        waiting = list(self.children)
        while waiting:
            node = waiting.pop()
            if id(node) not in found:
                found[id(node)] = node
                waiting += node.children
        return list(found.values())


@dataclass
class Expected:
    opened: set[int] = field(default_factory=set)
    completed: set[int] = field(default_factory=set)
    timed_out: dict[int, int] = field(default_factory=dict)  # holders
    reset: set[int] = field(default_factory=set)
    failed: dict[int, Reason] = field(default_factory=dict)


@dataclass
class WholeTrees:
    wave: int = 0
    trees: dict[int, Tree] = field(default_factory=dict)
    nodes: list[Node] = field(default_factory=list)
    failures: list[tuple[Node, Reason]] = field(default_factory=list)  # of this wave, in their order
    resets: set[int] = field(default_factory=set)
    expired: set[int] = field(default_factory=set)

    def pending(self) -> list[Node]:
        return [node for node in self.nodes if node.pending]

    def open_trees(self) -> Iterator[Tree]:
        return (tree for tree in self.trees.values() if tree.open)

    def end_wave(self) -> Expected:
        expected = Expected()
        for tree in list(self.open_trees()):
            self._judge(tree, expected)
        self.wave += 1
        self.failures, self.resets, self.expired = [], set(), set()
        return expected

    def _judge(self, tree: Tree, expected: Expected) -> None:
        is_new = tree.wave == self.wave
        nodes = tree.nodes()
        held = [node.task for node in nodes if node.pending and node.wave == self.wave]
        tree.holder = max(held, default=tree.holder)
        failed = self._failure(nodes)
        tree.open = False
        if failed is not None:
            expected.failed[tree.root] = failed
        elif all(node.acked for node in nodes):
            if not is_new:
                expected.completed.add(tree.root)
        elif tree.root in self.expired and tree.root not in self.resets:
            expected.timed_out[tree.root] = tree.holder
        else:
            tree.open = True
            if is_new:
                expected.opened.add(tree.root)
            elif tree.root in self.resets:
                expected.reset.add(tree.root)

    def _failure(self, nodes: list[Node]) -> Reason | None:
        """Return the lowest reason of those that each task gave first."""
        first: dict[int, Reason] = {}
        for node, reason in self.failures:
            if node in nodes:
                first.setdefault(node.task, reason)
        return min(first.values(), default=None)
