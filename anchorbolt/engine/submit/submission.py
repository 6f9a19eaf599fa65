"""Prepares a submission: makes the topology's plan and the settings of its waves."""

import logging
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from anchorbolt.bolts.sink import DataFrameSink
from anchorbolt.config.declaration import declared
from anchorbolt.config.loading import load_conf
from anchorbolt.config.providers import PROVIDER_CONFIG
from anchorbolt.config.settings import Settings, TaskSettings
from anchorbolt.engine.submit.plan import EngineSettings, ExecutionPlan
from anchorbolt.errors import TopologyError
from anchorbolt.faults.injection import install_faults
from anchorbolt.serialization.serializers import PickleCodec
from anchorbolt.state_backends.contract import StateProvider
from anchorbolt.state_backends.provider_factory import codecs_from, provider_from
from anchorbolt.topology.graph import Topology

_log = logging.getLogger("anchorbolt.engine")


@dataclass(frozen=True)
class Submission:
    """A topology that was submitted, ready to run."""

    plan: ExecutionPlan
    sinks: Mapping[str, DataFrameSink]  # by id, as the job made them: they publish on the driver
    settings: Settings


def prepare_submission(
    topology: Topology,
    conf: Mapping[str, Any] | None,
    *,
    shared_by_processes: bool,
    shared_by_machines: bool,
    memory: StateProvider | None = None,
    location: str | None = None,
) -> Submission:
    """Check the configuration and lay the topology out. Opens no store.

    Args:
        topology: The topology.
        conf: Its configuration.
        shared_by_processes: Whether its tasks run in several processes.
        shared_by_machines: Whether they run on several machines.
        memory: The provider for state in memory, and the default where none is configured; None where state in memory
            makes no sense.
        location: The checkpoint location where none is configured.

    Raises:
        ConfigError: The configuration cannot be used, or a fault of a crash test is for a component that is not there.
        TopologyError: `topology` is no topology.
    """
    if not isinstance(topology, Topology):
        raise TopologyError(f"{topology!r} is no topology. Pass what TopologyBuilder.create_topology(name) returned.")
    install_faults(dict.fromkeys(topology.spouts) | {name: spec.parallelism for name, spec in topology.bolts.items()})
    checked = load_conf(conf)
    settings = checked.settings
    if memory is not None and (settings.provider.name == "memory" or not settings.provider.is_set):
        provider = memory
    else:
        provider = provider_from(
            settings, shared_by_processes=shared_by_processes, shared_by_machines=shared_by_machines
        )
    configured = settings.checkpoint_location is not None or location is None
    key_codec, value_codec = codecs_from(settings.provider)
    if isinstance(value_codec, PickleCodec):
        _log.warning(
            "%s.valueSerializerClass is pickle: anyone who can write to the state store can run code in the driver and "
            "in every worker. Use it only with a store that nobody else can write to, or choose msgpack, json or a "
            "Serializer of yours.",
            PROVIDER_CONFIG,
        )
    engine_settings = EngineSettings(
        checkpoint_location=settings.checkpoint_location_of(topology.name) if configured else location or "",
        **{each.field: getattr(settings, each.field) for each in declared(TaskSettings)},
        key_codec=key_codec,
        value_codec=value_codec,
        namespace_prefix=settings.namespace_prefix_of(topology.name),
    )
    return Submission(
        plan=ExecutionPlan(topology, uuid.uuid4().hex, checked, engine_settings, provider),
        sinks={name: spec.bolt for name, spec in topology.bolts.items() if isinstance(spec.bolt, DataFrameSink)},
        settings=settings,
    )
