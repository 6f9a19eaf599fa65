"""The ledger, with all that is around it, agrees after every wave with a model that keeps whole trees."""

import copy

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from anchorbolt.serialization import pack, unpack
from anchorbolt.state_backends.contract import Fence
from anchorbolt.state_backends.memory import MemoryStateProvider
from anchorbolt.state_backends.state import AttemptScope
from anchorbolt.streams.lineage import IdSource, Lineage, Roots, ids_of, lineage_of
from anchorbolt.streams.tuple import Item, union
from anchorbolt.tracking import ledger, stored_trees
from anchorbolt.tracking.blob import decode_blob
from anchorbolt.tracking.contributions import Contributions
from anchorbolt.tracking.ledger import merge
from anchorbolt.tracking.placement import acker_of, apply_moves, moves_to
from anchorbolt.tracking.stored_trees import OpenTree, TreeState, tree_state
from anchorbolt.tracking.verdict import Verdict
from tests.tracking.whole_trees import Expected, Node, Tree, WholeTrees

SPOUTS = (1, 2)
BOLTS = (3, 4, 5)
DESTINATIONS = st.lists(st.sampled_from(BOLTS), min_size=1, max_size=3, unique=True)
OUTCOMES = st.sampled_from(["commit"] * 7 + ["roll back", "merge and roll back", "restart"])
CONSTANTS = (
    (ledger, "_RANGE_ROOTS"),
    (ledger, "_LOOKUP_ROOTS"),
    (stored_trees, "_CACHE_ENTRIES"),
    (stored_trees, "_PENDING_ENTRIES"),
)
NORMAL = [getattr(module, name) for module, name in CONSTANTS]


class LedgerMachine(RuleBasedStateMachine):
    """Runs waves of two spout tasks, three bolt tasks and some ackers, and the model beside them."""

    @initialize(ackers=st.integers(1, 3), sizes=st.sampled_from((1, 3, None)))
    def start(self, ackers: int, sizes: int | None) -> None:
        for (module, name), normal in zip(CONSTANTS, NORMAL, strict=True):
            setattr(module, name, sizes or normal)
        self.provider = MemoryStateProvider()
        self.ackers = ackers
        self.positions: dict[int, tuple[int, str]] = {}
        self.states: dict[int, TreeState] = {}
        self.txid = self.round = 0
        self.root_source = IdSource("roots")
        self.model = WholeTrees()
        self.begin_wave()

    def teardown(self) -> None:
        for (module, name), normal in zip(CONSTANTS, NORMAL, strict=True):
            setattr(module, name, normal)

    @property
    def may_act(self) -> bool:
        """Whether the wave goes on: without a limit, Hypothesis hardly ever ends one."""
        return self.acts < 6

    def begin_wave(self) -> None:
        """Start a round: what is not in the store or in the model is made anew."""
        self.before = copy.deepcopy(self.model)
        self.acts = 0
        self.round += 1
        self.attempt = f"{self.round:032x}"
        self.sources = {task: IdSource(f"{self.attempt} {task}") for task in SPOUTS + BOLTS}
        self.news = {task: Contributions() for task in SPOUTS + BOLTS}
        self.blobs: list[list[Node]] = []

    def send(self, sender: int, receiver: int, items: list[Item]) -> list[Node]:
        """Send a blob, as the engine will: its roots and ids cross as plain values."""
        lineage = lineage_of(items, self.sources[sender])
        if lineage is None:
            return [Node(0, receiver, (), self.model.wave, acked=True) for _ in items]
        arrived = Lineage.from_parts(unpack(pack(lineage.parts())), len(items))
        carried = [(item,) if isinstance(item, int) else item for item in arrived.items()]
        nodes = [
            Node(number, receiver, roots, self.model.wave, acked=not roots)
            for number, roots in zip(arrived.ids().tolist(), carried, strict=True)
        ]
        self.model.nodes += nodes
        self.blobs.append(nodes)
        return nodes

    @precondition(lambda self: self.may_act)
    @rule(
        spout=st.sampled_from(SPOUTS),
        plans=st.lists(DESTINATIONS | st.just([]), min_size=1, max_size=4),
        msg_id=st.binary(),
    )
    def emit_messages(self, spout: int, plans: list[list[int]], msg_id: bytes) -> None:
        self.acts += 1
        roots = ids_of(self.root_source.draw(len(plans)), len(plans))
        trees = [Tree(root, spout, msg_id, self.model.wave, spout) for root in roots.tolist()]
        self.model.trees.update((tree.root, tree) for tree in trees)
        self.news[spout].open_trees(roots, [msg_id] * len(trees))
        for receiver in BOLTS:
            sent = [tree for tree, plan in zip(trees, plans, strict=True) if receiver in plan]
            nodes = self.send(spout, receiver, [tree.root for tree in sent])
            for tree, node in zip(sent, nodes, strict=True):
                tree.children.append(node)

    @precondition(lambda self: self.may_act and self.model.pending())
    @rule(data=st.data(), receivers=DESTINATIONS)
    def emit_anchored(self, data: st.DataObject, receivers: list[int]) -> None:
        """Emit some tuples, each anchored on some that the task holds; one may descend from several messages."""
        self.acts += 1
        task = data.draw(st.sampled_from(sorted({node.task for node in self.model.pending()})))
        held = [node for node in self.model.pending() if node.task == task]
        rows = data.draw(st.lists(st.lists(st.sampled_from(held), max_size=3, unique_by=id), min_size=1, max_size=4))
        items = [union(node.roots for node in anchors) for anchors in rows]
        for receiver in receivers:
            for anchors, node in zip(rows, self.send(task, receiver, items), strict=True):
                for anchor in anchors:
                    anchor.children.append(node)

    @precondition(lambda self: self.may_act and self.model.pending())
    @rule(data=st.data())
    def ack(self, data: st.DataObject) -> None:
        """Ack any tuples, of this wave or of an earlier one."""
        self.acts += 1
        chosen = data.draw(st.lists(st.sampled_from(self.model.pending()), min_size=1, unique_by=id))
        for node in chosen:
            self.ack_one(node)

    @precondition(lambda self: self.may_act and self.model.pending())
    @rule(keep=st.integers(0, 2))
    def ack_most(self, keep: int) -> None:
        self.acts += 1
        for node in self.model.pending()[keep:]:
            self.ack_one(node)

    def ack_one(self, node: Node) -> None:
        node.acked = True
        if node.wave < self.model.wave:
            self.news[node.task].release(*pairs_of([node]))

    @precondition(lambda self: self.may_act and self.blobs)
    @rule(data=st.data())
    def ack_blob(self, data: st.DataObject) -> None:
        """Ack all tuples of a blob, or of a slice of it, at once, as it is done for basic bolts."""
        self.acts += 1
        nodes = data.draw(st.sampled_from(self.blobs))
        start = data.draw(st.integers(0, len(nodes)))
        stop = data.draw(st.integers(start, len(nodes)))
        part = nodes[start:stop]
        if all(node.pending or not node.roots for node in part):
            for node in part:
                node.acked = True

    @precondition(lambda self: self.may_act and self.model.pending())
    @rule(data=st.data(), reason=st.sampled_from(("late", "broken")))
    def fail(self, data: st.DataObject, reason: str) -> None:
        self.acts += 1
        node = data.draw(st.sampled_from(self.model.pending()))
        node.failed = True
        self.model.failures.append((node, ("bolt", node.task, reason)))
        for root in node.roots:
            self.news[node.task].fail(root, "bolt", node.task, reason)

    @precondition(lambda self: self.may_act and self.model.pending())
    @rule(data=st.data())
    def reset(self, data: st.DataObject) -> None:
        self.acts += 1
        node = data.draw(st.sampled_from(self.model.pending()))
        for root in node.roots:
            self.news[node.task].reset(root)
            self.model.resets.add(root)

    @precondition(lambda self: self.may_act and any(tree.wave < self.model.wave for tree in self.model.open_trees()))
    @rule(data=st.data(), spout=st.sampled_from(SPOUTS), only_open=st.booleans())
    def expire(self, data: st.DataObject, spout: int, only_open: bool) -> None:
        """End the time of trees of earlier waves; some of them may be complete or failed already."""
        self.acts += 1
        earlier = [tree for tree in self.model.trees.values() if tree.wave < self.model.wave]
        roots = [tree.root for tree in earlier if tree.open or not only_open]
        chosen = data.draw(st.lists(st.sampled_from(roots), min_size=1, max_size=3, unique=True))
        self.news[spout].expire(np.array(chosen, np.uint64))
        self.model.expired.update(chosen)

    @precondition(lambda self: self.acts > 1)
    @rule(outcome=OUTCOMES, reverse=st.booleans(), ackers=st.integers(1, 4))
    def end_wave(self, outcome: str, reverse: bool, ackers: int) -> None:
        if outcome == "commit":
            self.commit_wave(reverse)
        elif outcome == "roll back":
            self.roll_back()
        elif outcome == "merge and roll back":
            self.merge_wave(reverse)
            self.roll_back()
        else:
            self.restart()
            self.change_ackers(ackers)
        self.check_stored()

    def commit_wave(self, reverse: bool) -> None:
        verdicts = self.merge_wave(reverse)
        check_verdicts(verdicts, self.model.end_wave())
        self.commit()
        self.begin_wave()

    def roll_back(self) -> None:
        """Forget the round. The wave runs again, perhaps in another way."""
        self.model = self.before
        self.begin_wave()

    def restart(self) -> None:
        """All processes die. What the store holds is all that is left."""
        self.states.clear()
        self.roll_back()

    def change_ackers(self, ackers: int) -> None:
        for acker in range(max(ackers, self.ackers)):
            self.begin_state(acker)
        found = [(acker, *entry) for acker in range(self.ackers) for entry in self.states[acker].items()]
        for acker, moves in moves_to(ackers, found).items():
            apply_moves(moves, self.states[acker])
        for state in self.states.values():
            state.prepare_commit(self.txid)
        self.commit()
        self.states.clear()
        self.ackers = ackers
        self.begin_wave()

    def merge_wave(self, reverse: bool) -> list[Verdict]:
        for task in BOLTS:
            held = [node for node in self.model.pending() if node.task == task and node.wave == self.model.wave]
            self.news[task].hold(*pairs_of(held))
        sent = [self.news[task].blobs(self.ackers, task) for task in SPOUTS + BOLTS]
        verdicts = []
        for acker in range(self.ackers):
            arrived = [decode_blob(blobs[acker]) for blobs in (reversed(sent) if reverse else sent)]
            state = self.begin_state(acker)
            verdicts.append(merge(arrived, state))
            state.prepare_commit(self.txid)
        return verdicts

    def begin_state(self, acker: int) -> TreeState:
        if acker not in self.states:
            self.states[acker] = tree_state(self.provider.open(f"t:__acker-{acker}"))
        position = self.positions.get(acker, (-1, ""))
        self.states[acker].begin(AttemptScope(Fence(1, self.round), self.txid, self.attempt, *position))
        return self.states[acker]

    def commit(self) -> None:
        for acker, state in self.states.items():
            if state.seal is not None:
                state.commit(self.txid)
                self.positions[acker] = (self.txid, self.attempt)
        self.txid += 1

    def check_stored(self) -> None:
        """Compare the bytes in the store, as a new process reads them, with the open trees of the model."""
        found: dict[int, OpenTree] = {}
        for acker in range(5):
            state = tree_state(self.provider.open(f"t:__acker-{acker}"))
            state.begin(AttemptScope(Fence(9, 0), self.txid, "f" * 32, *self.positions.get(acker, (-1, ""))))
            entries = dict(state.items())
            assert {acker_of(root, self.ackers) for root in entries} <= {acker}
            found |= entries
        assert found == {tree.root: as_stored(tree) for tree in self.model.open_trees()}


def pairs_of(nodes: list[Node]) -> tuple[Roots, Roots]:
    roots = [root for node in nodes for root in node.roots]
    ids = [node.id for node in nodes for _ in node.roots]
    return np.array(roots, np.uint64), np.array(ids, np.uint64)


def as_stored(tree: Tree) -> OpenTree:
    pending = np.array([node.id for node in tree.nodes() if node.pending], np.uint64)
    return OpenTree(int(np.bitwise_xor.reduce(pending)), tree.spout_task, tree.holder, tree.msg_id)


def check_verdicts(verdicts: list[Verdict], expected: Expected) -> None:
    found = Expected()
    for acker, verdict in enumerate(verdicts):
        parts = [verdict.opened, verdict.completed, verdict.timed_out, verdict.reset]
        assert all((part[1:] > part[:-1]).all() for part in parts)
        mentioned = set(np.concatenate(parts).tolist()) | {failure.root for failure in verdict.failed}
        assert {acker_of(root, len(verdicts)) for root in mentioned} <= {acker}
        found.opened.update(verdict.opened.tolist())
        found.completed.update(verdict.completed.tolist())
        holders = [tree.holder for tree in verdict.timed_out_trees]
        found.timed_out.update(zip(verdict.timed_out.tolist(), holders, strict=True))
        found.reset.update(verdict.reset.tolist())
        assert len({failure.root for failure in verdict.failed}) == len(verdict.failed)
        found.failed.update((failure.root, tuple(failure[1:4])) for failure in verdict.failed)
    assert found == expected


TestLedger = LedgerMachine.TestCase
TestLedger.pytestmark = [pytest.mark.slow]  # type: ignore[attr-defined]
TestLedger.settings = settings(max_examples=100, stateful_step_count=80, deadline=None)
