"""The execution plan: which task runs in which stage and partition. Fixed for a run, pickled to every worker. Pure."""

import copy
import secrets
import threading
import uuid
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any, cast

import cloudpickle

from anchorbolt.bolts.arrow import BaseArrowBolt
from anchorbolt.bolts.base import BaseBasicBolt, BaseStatefulBolt, Bolt
from anchorbolt.bolts.sink import DataFrameSink
from anchorbolt.checkpoint.ports import TaskKey
from anchorbolt.checkpoint.times import EventTime
from anchorbolt.config.masking import Masking, secrets_in
from anchorbolt.config.settings import DEAD_LETTER, Settings
from anchorbolt.engine.plan.wiring import Wiring
from anchorbolt.errors import AnchorboltError, ConfigError
from anchorbolt.files import Folder, Locations, WorkerLocations
from anchorbolt.serialization.codecs import Schema
from anchorbolt.spouts.base import BaseRichSpout
from anchorbolt.spouts.spark_ranges import SparkTransactionalSpout
from anchorbolt.spouts.transactional import BatchSpout
from anchorbolt.state_backends.contract import StateProvider
from anchorbolt.state_backends.encoding import EntryEncoding
from anchorbolt.state_backends.key_value import KeyValueState
from anchorbolt.state_backends.provider_factory import codecs_from
from anchorbolt.state_backends.state import State
from anchorbolt.streams.declaration import ACKER_ID
from anchorbolt.topology.graph import Topology
from anchorbolt.topology.time import NO_TIME
from anchorbolt.topology.validation import check_picklable
from anchorbolt.tracking.stored_trees import TREE_HEADER
from anchorbolt.transactional.batches.hand_off import HandOffs, Unpickler

_one_imports = threading.RLock()


class ExecutionPlan:
    """The data of a run for all parts of the engine: its settings, codecs, provider, locations and wiring.

    Pickled to every worker, without the attributes that only the driver has.
    """

    def __init__(
        self,
        graph: Topology,
        conf: Mapping[str, Any],  # for the bolts' `prepare`
        settings: Settings,
        provider: StateProvider,
        run_id: str = "",
        ackers: int = 1,  # 0 if tuple trees are not tracked
        former_ackers: int = 0,  # of the last run: each has a task, so that its open trees can move
        locations: Locations | None = None,  # None for locations that this process can open
        shared_by_machines: bool = False,  # whether tasks run on other machines than the driver
    ) -> None:
        self.graph = graph  # only on the driver
        self.topology = graph.name
        self.run_id = run_id or uuid.uuid4().hex
        # Functions stay on the driver: they may hold a connection.
        self.conf = {key: value for key, value in conf.items() if key != DEAD_LETTER or isinstance(value, str)}
        self.settings = settings
        self.provider = provider
        self.key_codec, self.value_codec = codecs_from(settings.provider)
        self.locations: Locations = WorkerLocations() if locations is None else locations
        self.shared_by_machines = shared_by_machines
        self.checkpoint_location = self.locations.qualified(settings.checkpoint_location_of(graph.name))
        for sink in self.sinks.values():
            sink.locations = self.locations
        bolts, rich_spouts, batch_spout = graph.bolts.values(), graph.rich_spouts, graph.batch_spout
        self._pickled = {spec.id: cloudpickle.dumps(spec.bolt) for spec in bolts}
        if batch_spout is not None and not isinstance(batch_spout.spout, SparkTransactionalSpout):
            self._pickled[batch_spout.id] = cloudpickle.dumps(batch_spout.spout)
        if settings.spouts_in == "workers":
            check_picklable(rich_spouts.values(), may_copy=False)
            self._pickled |= {name: cloudpickle.dumps(spec.spout) for name, spec in rich_spouts.items()}
        self._hand_off_key = secrets.token_bytes(32)
        self.is_tracked = bool(rich_spouts) and ackers > 0
        # If no bolt acks itself, no tree stays open after its wave: the tasks themselves report which trees failed.
        can_stay_open = any(not isinstance(spec.bolt, BaseBasicBolt | BaseArrowBolt | DataFrameSink) for spec in bolts)
        needs_acker = can_stay_open or settings.acker_executors is not None or former_ackers
        self.wiring = Wiring(
            graph,
            settings.namespace_prefix_of(graph.name),
            ackers=ackers if rich_spouts and needs_acker else 0,
            acker_tasks=former_ackers,
        )
        self.keeps_dead_letters = settings.dead_letter is not None  # of tuples that fail for good
        self.replays_letters = isinstance(settings.dead_letter, str)  # a function keeps no letters to replay
        # By bolt: the seconds between its tick tuples. Sinks get none.
        ticks = {spec.id: spec.tick_secs or settings.tick_secs for spec in bolts if spec.id not in self.sinks}
        self.ticks = {bolt: seconds for bolt, seconds in ticks.items() if seconds is not None}
        self.times = {spec.id: spec.time for spec in bolts if spec.is_stateful}

    def ttl_ms(self, bolt: str) -> int | None:
        """Return how long an entry of a stateful bolt lives that is put without a TTL; None for entries that stay."""
        own, setting = self.times[bolt].ttl_ms, self.settings.state_ttl_secs
        if own is not None:
            return own or None
        return None if setting is None else max(1, round(setting * 1000))

    @property
    def event_times(self) -> dict[str, EventTime]:
        """How the watermarks of the bolts with event time follow their input. Only on the driver."""
        found, upstream = {}, dict[str, frozenset[str]]()
        for spec in self.graph.bolts.values():  # in topological order
            above = [each for each in spec.sources if each in self.graph.bolts]
            timed = {each for each in above if self.graph.bolts[each].time.has_timers}
            upstream[spec.id] = frozenset(timed).union(*(upstream[each] for each in above))
            if spec.time.event_time is not None:
                streams = tuple((each.component, each.stream) for each, _ in spec.inputs)
                found[spec.id] = EventTime(streams, spec.time.lag_ms, spec.time.idle_ms, upstream[spec.id])
        return found

    def has_time(self, bolt: str) -> bool:
        """Return whether a bolt has timers, event time, or a TTL of its own."""
        return self.times.get(bolt, NO_TIME) != NO_TIME

    def commit_phase(self) -> "ExecutionPlan":
        """Return the plan of the commit phase of a transactional topology, see `Wiring.commit_phase`."""
        plan = copy.copy(self)
        plan.wiring, plan.run_id = self.wiring.commit_phase(), f"{self.run_id}-commit"
        return plan

    @cached_property
    def masking(self) -> Masking:
        """Removes the secrets of the configuration from a text. Mask before a text is cut."""
        return Masking([*secrets_in(self.conf), *secrets_in(self.settings)])

    @property
    def excludes_failed(self) -> bool:
        """Whether a round with failed tuple trees is repeated without them, so that they do not change the state."""
        policy = self.settings.fail_policy
        return bool(self.wiring.stateful_bolts) if policy is None else policy == "exclude"

    @property
    def sinks(self) -> dict[str, DataFrameSink]:
        """The sinks by id, as the job made them: they publish on the driver."""
        return {name: spec.bolt for name, spec in self.graph.bolts.items() if isinstance(spec.bolt, DataFrameSink)}

    @property
    def spouts_of_trees(self) -> dict[int, str]:
        """The rich spouts by the ids of their tasks; an empty name for one without stable message ids."""
        spouts = {name: spec.spout for name, spec in self.graph.rich_spouts.items()}
        stable = {name for name, spout in spouts.items() if cast(BaseRichSpout, spout).stable_message_ids}
        return {
            self.wiring.task_id(task): task[0] if task[0] in stable else "" for task in self.wiring.rich_spout_tasks
        }

    def new_state(self, task: TaskKey) -> State | None:
        """Return a new state of the user's own class for a task, or None if the task has a `KeyValueState`.

        Raises `ConfigError` if the user's provider raises or returns any other object.
        """
        provider = self.provider
        if type(provider).new_state is StateProvider.new_state or task[0] == ACKER_ID:
            return None
        namespace = self.wiring.namespace(task)
        made_by = f"{type(provider).__module__}.{type(provider).__qualname__}.new_state"
        try:
            state: object = provider.new_state(namespace, self.wiring.context(task))
        except AnchorboltError:
            raise
        except Exception as error:
            raise ConfigError(
                f"{made_by} raised {type(error).__name__}: {error}, for {namespace!r}. Fix it.",
                key="topology.state.provider",
            ) from error
        if state is not None and (not isinstance(state, State) or isinstance(state, KeyValueState)):
            raise ConfigError(
                f"{made_by} returned a {type(state).__name__} for {namespace!r}. Return an object of your own class "
                "that extends State or AttemptState, or None for a KeyValueState.",
                key="topology.state.provider",
            )
        return state

    def header(self, namespace: str) -> str:
        """Return the format header of a namespace of this topology."""
        if self.wiring.namespaces[namespace][0] == ACKER_ID:
            return TREE_HEADER
        return EntryEncoding("", self.key_codec, self.value_codec).header

    def schema(self, component: str) -> Schema:
        """Return the schema of a stateful bolt's values, on the driver."""
        bolt = self.graph.bolts[component].bolt
        assert isinstance(bolt, BaseStatefulBolt)
        return Schema(bolt.state_schema_version, bolt.upcast)

    def pickled(self, *without: str) -> bytes:
        """Return the plan, `without` some attributes. Workers can unpickle it without the job's `__main__`."""
        plan = copy.copy(self)
        plan.settings = replace(self.settings, dead_letter=None)  # it may be a function that stays on the driver
        plan.locations = self.locations.for_workers(self.places_of_tasks)
        for name in ("graph", *without):
            delattr(plan, name)
        data: bytes = cloudpickle.dumps(plan)
        return data

    def unpickle_bolt(self, component: str) -> Bolt:
        bolt: Bolt = self._unpickled(component)
        if isinstance(bolt, DataFrameSink):
            bolt.locations = self.locations
        return bolt

    def open_location(self) -> Folder:
        """Open the checkpoint location, on the driver or in a task."""
        return self.locations.open(self.checkpoint_location)

    def hand_offs(self) -> HandOffs:
        """Return the hand-offs of this run's batches, in a task."""
        return HandOffs(self.open_location(), self._hand_off_key)

    @property
    def places_of_tasks(self) -> list[str]:
        """The locations that tasks read or write, qualified; empty if only the driver has files."""
        directories = [self.locations.qualified(place) for sink in self.sinks.values() for place in sink.directories()]
        return [self.checkpoint_location, *directories] if self.sinks or self.wiring.late_bolts else []

    def unpickle_spout(self) -> BatchSpout:
        """Return a copy of a transactional topology's spout."""
        spout: BatchSpout = self._unpickled(self.wiring.batch_spout)
        return spout

    def _unpickled(self, component: str) -> Any:
        # Two threads that import modules which need each other can both get one that is not complete.
        with _one_imports:
            return Unpickler(self._pickled[component]).load()

    def copy_spout(self, component: str) -> BaseRichSpout:
        """Return a copy of a rich spout for a task. On the driver, its class is the job's own class, not a copy."""
        graph: Topology | None = getattr(self, "graph", None)
        if graph is None:
            in_worker: BaseRichSpout = self._unpickled(component)
            return in_worker
        spout = graph.spouts[component].spout
        assert isinstance(spout, BaseRichSpout)
        try:
            return copy.deepcopy(spout)
        except Exception:  # only cloudpickle can copy some attributes, such as a module
            copied: BaseRichSpout = Unpickler(cloudpickle.dumps(spout)).load()
            return copied
