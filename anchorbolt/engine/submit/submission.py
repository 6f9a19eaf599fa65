"""Prepares a submission: checks the configuration, and makes the topology's plan."""

import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from anchorbolt.config.loading import load_conf
from anchorbolt.config.providers import PROVIDER_CONFIG
from anchorbolt.engine.submit.plan import ExecutionPlan
from anchorbolt.errors import TopologyError
from anchorbolt.faults.injection import install_faults
from anchorbolt.serialization.serializers import PickleCodec
from anchorbolt.state_backends.contract import StateProvider
from anchorbolt.state_backends.provider_factory import provider_from
from anchorbolt.topology.graph import Topology

_log = logging.getLogger("anchorbolt.engine")


def prepare_plan(
    topology: Topology,
    conf: Mapping[str, Any] | None,
    *,
    shared_by_machines: bool = False,
    memory: StateProvider | None = None,
    location: str | None = None,
) -> ExecutionPlan:
    """Return the plan of a run on Spark; or, with `memory`, of a run in this process. Opens no store.

    `memory` is the provider for state in memory, and the default where none is configured. `location` is the default
    checkpoint location. Raises `TopologyError` if `topology` is no topology, and `ConfigError`.
    """
    if not isinstance(topology, Topology):
        raise TopologyError(f"{topology!r} is no topology. Pass what TopologyBuilder.create_topology(name) returned.")
    install_faults(dict.fromkeys(topology.spouts) | {name: spec.parallelism for name, spec in topology.bolts.items()})
    checked = load_conf(conf)
    settings = checked.settings
    if memory is not None and (settings.provider.name == "memory" or not settings.provider.is_set):
        provider = memory
    else:
        provider = provider_from(settings, shared_by_processes=memory is None, shared_by_machines=shared_by_machines)
    if settings.checkpoint_location is None:
        settings = replace(settings, checkpoint_location=location)
    plan = ExecutionPlan(topology, checked, settings, provider)
    if isinstance(plan.value_codec, PickleCodec):
        _log.warning(
            "%s.valueSerializerClass is pickle: anyone who can write to the state store can run code in the driver and "
            "in every worker. Use it only with a store that nobody else can write to, or choose msgpack, json or a "
            "Serializer of yours.",
            PROVIDER_CONFIG,
        )
    return plan
