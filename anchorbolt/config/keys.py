"""The configuration keys that Anchorbolt knows, with their defaults and what their values may be, as a pydantic model.

A field's alias is its key; its description completes the sentence "must be …". Only `config` and its parts use this.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field, StringConstraints

from anchorbolt.config.provider_keys import Keys

_Name = Annotated[str, StringConstraints(min_length=1)]
_Count = Annotated[int, Field(ge=1)]


class TopologyConfig(Keys):
    """The keys with an effect, by alias."""

    provider: _Name = Field(
        default="sqlite", alias="topology.state.provider", description="the name of a state provider"
    )
    provider_config: dict[str, Any] = Field(
        default_factory=dict,
        alias="topology.state.provider.config",
        description="a mapping, or a JSON object in a string",
    )
    namespace_prefix: (
        Annotated[str, StringConstraints(pattern=r"^([A-Za-z0-9_\-][A-Za-z0-9_.\-]{0,127})?$")] | None
    ) = Field(
        default=None,
        alias="topology.state.namespace.prefix",
        description="empty, or 1 to 128 of the characters A-Z a-z 0-9 _ . - without a leading dot",
    )
    checkpoint_interval_ms: Annotated[int, Field(ge=100)] = Field(
        default=1000,
        alias="topology.state.checkpoint.interval.ms",
        description="a whole number of milliseconds, at least 100",
    )
    checkpoint_location: _Name | None = Field(
        default=None, alias="topology.checkpoint.location", description="a path or a URI"
    )
    accept_new_query: bool = Field(
        default=False, alias="topology.checkpoint.accept.new.query", description="true or false"
    )
    message_timeout_secs: _Count = Field(
        default=30, alias="topology.message.timeout.secs", description="a whole number of seconds, at least 1"
    )
    max_batch_retries: Annotated[int, Field(ge=0)] = Field(
        default=3, alias="topology.max.batch.retries", description="a whole number, at least 0"
    )
    cache_max_entries: Annotated[int, Field(ge=0)] = Field(
        default=200_000, alias="topology.state.cache.max.entries", description="a whole number, at least 0"
    )
    pending_max_entries: _Count = Field(
        default=100_000, alias="topology.state.pending.max.entries", description="a whole number, at least 1"
    )
    blob_bytes: Annotated[int, Field(ge=1024, le=1 << 28)] = Field(
        default=1 << 20,
        alias="topology.transfer.blob.bytes",
        description=f"a whole number of bytes, from 1024 to {1 << 28}",
    )
    buffer_tuples: _Count = Field(
        default=16_384, alias="topology.transfer.buffer.tuples", description="a whole number, at least 1"
    )
