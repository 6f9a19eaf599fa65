"""Prepares a run on any engine: its plan, from the topology and the configuration; and checks its store."""

import logging
from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from typing import Any

from anchorbolt.checkpoint.decision_log import DecisionLog, record_namespace
from anchorbolt.config.loading import load_conf
from anchorbolt.config.providers import PROVIDER_CONFIG
from anchorbolt.config.settings import TICK_SECS, Settings
from anchorbolt.engine.plan.execution_plan import ExecutionPlan
from anchorbolt.errors import ConfigError, TopologyError
from anchorbolt.faults.injection import install_faults
from anchorbolt.files import Locations
from anchorbolt.run.start import RunStart
from anchorbolt.serialization.codecs import PickleCodec
from anchorbolt.state_backends.contract import StateProvider
from anchorbolt.state_backends.provider_factory import codecs_from, provider_from
from anchorbolt.streams.declaration import ACKER_ID
from anchorbolt.topology.graph import Topology
from anchorbolt.util.retry import RetryPolicy

_log = logging.getLogger("anchorbolt.engine")


def prepare_plan(
    topology: Topology,
    conf: Mapping[str, Any] | None,
    *,
    shared_by_machines: bool = False,
    memory: StateProvider | None = None,
    location: str | None = None,
    executors: int = 1,
    locations: Locations | None = None,
    retry: RetryPolicy | None = None,
) -> ExecutionPlan:
    """Return the plan of a run on Spark; or, with `memory`, of a run in this process.

    Opens no store, except for rich spouts: it reads the previous run's number of ackers.

    There is an acker for each of the `executors`, if the configuration does not say otherwise. `memory` is the provider
    for state in memory, and the default where none is configured. `location` is the default checkpoint location;
    `locations` opens the run's locations, by default on this process's file systems; `retry` shows waits for the store.
    Raises `TopologyError` if `topology` is not a topology, and `ConfigError`.
    """
    if not isinstance(topology, Topology):
        raise TopologyError(f"{topology!r} is not a topology. Pass the result of create_topology(name).")
    tasks: dict[str, int | None] = {name: spec.parallelism for name, spec in topology.bolts.items()}
    install_faults(dict.fromkeys((*topology.spouts, *((ACKER_ID,) if topology.rich_spouts else ()))) | tasks)
    checked = load_conf(conf)
    settings = checked.settings
    if memory is not None and (settings.provider.name == "memory" or not settings.provider.is_set):
        provider = memory
    else:
        provider = provider_from(settings, shared_by_processes=memory is None, shared_by_machines=shared_by_machines)
    if settings.checkpoint_location is None:
        settings = replace(settings, checkpoint_location=location)
    number = executors if settings.acker_executors is None else settings.acker_executors
    former = former_ackers(topology, provider, settings, retry) if topology.rich_spouts else 0
    plan = ExecutionPlan(
        topology,
        checked,
        settings,
        provider,
        ackers=number,
        former_ackers=former,
        locations=locations,
        shared_by_machines=shared_by_machines,
    )
    if plan.wiring.batch_spout and settings.tick_secs is not None:
        raise ConfigError(
            f"{TICK_SECS} is {settings.tick_secs}, but {topology.name!r} is a transactional topology, whose bolts get "
            "no tick tuples. Remove it.",
            key=TICK_SECS,
        )
    if isinstance(plan.value_codec, PickleCodec):
        _log.warning(
            "%s.valueSerializerClass is pickle: anyone who can write to the state store can run code in the driver and "
            "in every worker. Use it only with a store that nobody else can write to, or choose msgpack, json or a "
            "Serializer of yours.",
            PROVIDER_CONFIG,
        )
    return plan


def former_ackers(
    topology: Topology, provider: StateProvider, settings: Settings, retry: RetryPolicy | None = None
) -> int:
    """Return the number of ackers of the previous run; 0 if there was none."""
    retry = retry or RetryPolicy(settings.message_timeout_secs * 1000)
    with closing(provider.open(record_namespace(settings.namespace_prefix_of(topology.name)))) as storage:
        record, _ = DecisionLog(storage, retry=retry).load()
    return 0 if record is None else record.parallelism.get(ACKER_ID, 0)


def check_store(topology: str, settings: Settings, start: RunStart) -> StateProvider:
    """Check the serializers and the store before Spark is started, which takes seconds. Return the provider."""
    provider = provider_from(settings, shared_by_processes=True, shared_by_machines=False)
    codecs_from(settings.provider)
    with closing(provider.open(record_namespace(settings.namespace_prefix_of(topology)))) as storage:
        start.ask_store(storage.head)
    return provider
