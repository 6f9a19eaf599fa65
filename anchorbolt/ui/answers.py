"""The answers of the REST API: their types, from which the JSON and the OpenAPI description are derived.

The names are those of Storm's REST API where Storm has them, in camel case. A value missing in a history is None. A
field that is UNSET is left out of the JSON.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from msgspec import UNSET, Meta, Struct, UnsetType, field

from anchorbolt.observe.history.records import GraphComponent, Letter, Record

Decimal = Annotated[str, Meta(pattern=r"^-?\d+\.\d{3}$")]
"""A latency or a capacity, as Storm writes them."""


class Answer(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """An answer, or a part of one."""


class Head(Answer, frozen=True, kw_only=True):
    id: str
    encoded_id: str
    name: str
    status: str
    uptime: str
    uptime_seconds: int
    tasks_total: int
    executors_total: int
    workers_total: int


class Summary(Answer, frozen=True, kw_only=True):
    topologies: Sequence[Head]


class Amounts(Answer, frozen=True, kw_only=True):
    """The figures of tasks in a window: each shown `Figure`, and values derived from several."""

    executed: int | None
    emitted: int | None
    failed: int | UnsetType | None  # messages of a rich spout; a stream spout has none
    errors: int | None
    source_ms: float | None
    busy_ms: float | None
    decode_ms: float | None
    read_ms: float | None
    encode_ms: float | None
    execute_ms: float | None
    prepare_ms: float | None
    stage_ms: float | None
    seal_ms: float | None
    bytes_out: int | None
    keys_read: int | None
    keys_cached: int | None
    keys_staged: int | None
    bytes_staged: int | None
    keys_swept: int | None  # expired entries that were deleted
    timers_fired: int | None
    transferred: int | UnsetType | None = UNSET
    execute_latency: Decimal | UnsetType | None = UNSET
    capacity: Decimal | UnsetType | None = UNSET
    acked: int | UnsetType | None = UNSET  # messages of a rich spout; tuples of a bolt, if tracked
    complete_latency: Decimal | UnsetType = UNSET


class ShownComponent(Amounts, frozen=True, kw_only=True):
    tasks: int
    executors: int
    type: str
    skew: float | None
    last_error: str
    error_time: int | None
    error_lapsed_secs: int | None


class Spout(ShownComponent, frozen=True, kw_only=True):
    spout_id: str
    encoded_spout_id: str
    dead_letters: int | None


class Bolt(ShownComponent, frozen=True, kw_only=True):
    bolt_id: str
    encoded_bolt_id: str
    stateful: bool


class TopologyStats(Answer, frozen=True, kw_only=True):
    window: str
    window_pretty: str
    emitted: int
    transferred: int | None
    acked: int
    failed: int
    dead_letters: int
    complete_latency: Decimal | UnsetType = UNSET


class Quantiles(Answer, frozen=True, kw_only=True):
    count: int
    p50: float  # ms
    p99: float


class Recovery(Answer, frozen=True, kw_only=True):
    action: str
    ms: float


class Failure(Answer, frozen=True, kw_only=True):
    error: str  # the type of the exception
    text: str


class Worker(Answer, frozen=True, kw_only=True):
    """A worker that stays. Bytes are counted since it started."""

    slot: int
    host: str
    pid: int
    uptime: str
    uptime_seconds: int
    executors_total: int  # its tasks
    buffered_bytes: int
    spilled_bytes: int
    cached_entries: int
    sent_bytes: int  # to all other workers
    sent_bytes_to: Mapping[str, int]  # by the other worker's slot


class Topology(Head, frozen=True, kw_only=True):
    msg_timeout: int | None
    window: str
    window_hint: str
    window_seconds: float
    topology_stats: Sequence[TopologyStats]
    spouts: Sequence[Spout]
    bolts: Sequence[Bolt]
    workers: Sequence[Worker]  # empty without `topology.workers`
    configuration: Mapping[str, Any]
    generation: int
    recovery: Recovery | None
    txid: int
    is_live: bool
    waves: Mapping[str, float]
    phases_ms: Mapping[str, Quantiles]
    store_ms: Mapping[str, Quantiles]
    failure: Failure | None
    facts: Mapping[str, str]


class Stats(Amounts, frozen=True, kw_only=True):
    window: str
    window_pretty: str


class InputStats(Answer, frozen=True, kw_only=True):
    """A stream that a bolt reads. It has all figures only if the bolt reads no other."""

    component: str
    encoded_component_id: str
    stream: str
    grouping: str
    executed: int | None
    execute_latency: Decimal | UnsetType | None = UNSET
    failed: int | UnsetType = UNSET
    acked: int | UnsetType = UNSET


class Target(Answer, frozen=True, kw_only=True):
    target: str
    transferred: int


class OutputStats(Answer, frozen=True, kw_only=True):
    stream: str
    emitted: int | UnsetType = UNSET  # counted at a bolt that gets each tuple once
    transferred: int
    targets: Sequence[Target]


class Executor(Amounts, frozen=True, kw_only=True):
    """A task. A task of a stream spout has no `failed`."""

    id: str
    encoded_id: str
    failed: int | UnsetType | None = UNSET
    executed_per_second: float


class Spread(Answer, frozen=True, kw_only=True):
    """The spread of a number over tasks; `bars` are a histogram."""

    min: float
    median: float
    max: float
    bars: Sequence[int]


class ComponentError(Answer, frozen=True, kw_only=True):
    error: str
    error_time: int
    error_lapsed_secs: int


class ComponentTime(Answer, frozen=True, kw_only=True):
    """The timers and the event time of a bolt. Its open windows are about as many as its waiting timers."""

    watermark: int | None  # ms since 1970; None for a bolt without event time, and before its first
    watermark_lag_ms: int | None  # how far it is behind the clock
    timers_waiting: int  # about


class Component(Answer, frozen=True, kw_only=True):
    id: str
    encoded_id: str
    name: str
    topology_id: str
    encoded_topology_id: str
    topology_status: str
    component_type: str
    type: str
    chained_to: str | UnsetType = UNSET  # of a chained bolt
    window: str
    window_hint: str
    window_seconds: float
    tasks: int
    executors: int
    spout_summary: Sequence[Stats] | UnsetType = UNSET  # of a spout
    bolt_stats: Sequence[Stats] | UnsetType = UNSET  # of a bolt
    input_stats: Sequence[InputStats]
    output_stats: Sequence[OutputStats]
    executors_total: int
    executors_first: int
    executor_stats: Sequence[Executor]
    skew: float | None
    spread: Mapping[str, Spread]
    time: ComponentTime | UnsetType = UNSET  # of a bolt with timers, event time or a TTL, while it runs
    component_errors: Sequence[ComponentError]


class DrawnComponent(GraphComponent, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    chained_to: str | UnsetType = UNSET  # again, in camel case
    executed: int
    emitted: int
    executed_per_second: float
    emitted_per_second: float
    capacity: float | None


class DrawnEdge(Answer, frozen=True, kw_only=True):
    source: str
    stream: str
    target: str
    grouping: str
    transferred: int | None
    per_second: float | None


class DrawnGraph(Answer, frozen=True, kw_only=True):
    window: str
    window_seconds: float
    components: Sequence[DrawnComponent]
    edges: Sequence[DrawnEdge]


class Task(Answer, frozen=True, kw_only=True):
    component: str
    task: int


class RunningWave(Answer, frozen=True, kw_only=True):
    txid: int
    phase: str
    round: int
    last_failure: str = ""  # why the previous round failed
    seconds: float
    tasks_ended: int = 0
    tasks_total: int = 0  # of the current round; 0 if the engine reports none
    waits_for_tasks: Sequence[Task] = []  # the first 50
    waits_for_tasks_total: int = 0


class Waiting(Answer, frozen=True, kw_only=True):
    waits_for: str = field(name="for")
    seconds: float


class SpoutLoad(Answer, frozen=True, kw_only=True):
    spout: str
    messages_in_flight: int
    most: int | None
    tasks_held: int


class Throttled(Answer, frozen=True, kw_only=True):
    reason: str
    by: Task | None
    seconds: float
    window_seconds: float  # throttled in the last `of_seconds`
    of_seconds: float
    spouts: Sequence[SpoutLoad]


class LongCall(Task, frozen=True, kw_only=True):
    kind: str
    method: str
    seconds: float
    stack: str


class SourceLag(Answer, frozen=True, kw_only=True):
    spout: str
    offsets_behind: int | None
    files_waiting: int | None


class Now(Answer, frozen=True, kw_only=True):
    """The current activity of a run. The defaults are for a history."""

    pausing: bool = False  # paused, but waves still run for messages or batches in flight
    commit_age_secs: float | None = None  # since the last commit; before the first one, since the start
    wave: RunningWave | None = None  # None between two waves
    waiting: Sequence[Waiting] = []
    losses: int = 0
    messages_in_flight: int | None = None
    throttled: str = ""
    throttled_by: Task | None = None
    throttle: Throttled | None = None  # None without rich spouts
    oldest_message_secs: float | None = None  # since it was emitted
    long_calls: Sequence[LongCall] = []  # the longest first, at most 20
    offsets_behind: int | None = None
    files_waiting: int | None = None
    sources: Sequence[SourceLag] = []


class NowOfTopology(Now, frozen=True, kw_only=True):
    at: float
    status: str
    is_live: bool
    ready: bool
    reason: str
    can_act: bool
    txid: int
    generation: int
    failure: Failure | None


class Waves(Answer, frozen=True, kw_only=True):
    """Records without the tasks of waves and the graphs of starts, newest first."""

    total: int
    waves: Sequence[Record]


class FailedRounds(Answer, frozen=True, kw_only=True):
    """The failed rounds of a wave, and the first exception of a bolt or a spout in them."""

    at: float
    txid: int
    rounds: int
    reasons: Sequence[str]
    component: str = ""
    task: int = -1
    traceback: str = ""


class FailedEnd(Answer, frozen=True, kw_only=True):
    at: float
    txid: int
    status: str
    error: str
    text: str


class Message(Answer, frozen=True, kw_only=True):
    spout: str
    component: str
    task: int
    reason: str
    txid: int
    message_id: str
    timed_out: bool


class TimedOut(Task, frozen=True, kw_only=True):
    """A task that held tuples of messages when they timed out."""

    spout: str
    messages: int


class Failures(Answer, frozen=True, kw_only=True):
    run: Failure | None
    rounds: Sequence[FailedRounds]
    ends: Sequence[FailedEnd]
    messages: Sequence[Message]
    timed_out: Sequence[TimedOut]
    letters: Sequence[Letter]
    dead_letters: int


class SizeOf(Answer, frozen=True, kw_only=True):
    """The size of a state; None if its store does not report it."""

    keys: int | None
    bytes: int | None


class TaskSize(SizeOf, frozen=True, kw_only=True):
    task: int


class Growth(SizeOf, frozen=True, kw_only=True):
    """The growth of a state in `seconds`, or `over_secs` if less is known."""

    seconds: int
    over_secs: float


class PastSize(SizeOf, frozen=True, kw_only=True):
    age_secs: float


class StateOf(SizeOf, frozen=True, kw_only=True):
    component: str
    type: str
    tasks: int
    skew: float | None
    growth: Sequence[Growth]
    history: Sequence[PastSize]


class State(Answer, frozen=True, kw_only=True):
    store: str
    is_live: bool
    measured_age_secs: float | None
    components: Sequence[StateOf]


class ComponentState(StateOf, frozen=True, kw_only=True):
    store: str
    is_live: bool
    measured_age_secs: float | None
    can_look_up: bool
    tasks_first: int
    by_size: Sequence[TaskSize]
    spread: Spread | None


class Found(Answer, frozen=True, kw_only=True):
    """A task's value of a key. A value that is very long or cannot be decoded has a `problem` instead."""

    task: int
    bytes: int
    text: str | UnsetType = UNSET
    value: Any = UNSET  # only if its JSON is short
    problem: str | UnsetType = UNSET
    expires_at: int | UnsetType = UNSET  # ms since 1970, for an entry with a TTL


class LookedUp(Answer, frozen=True, kw_only=True):
    component: str
    key: Any
    key_text: str
    tasks_total: int
    tasks_asked: int
    found: Sequence[Found]


class ConfiguredKey(Answer, frozen=True, kw_only=True):
    key: str
    value: Any
    origin: str
    known: bool


class Configuration(Answer, frozen=True, kw_only=True):
    keys: Sequence[ConfiguredKey]
    facts: Mapping[str, str]


class Done(Answer, frozen=True, kw_only=True):
    topology_operation: str
    topology_id: str
    status: str = "success"


class Ready(Answer, frozen=True, kw_only=True):
    ready: bool
    reason: str | UnsetType = UNSET
