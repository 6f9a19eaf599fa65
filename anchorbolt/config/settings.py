"""The settings of a run, typed: plain data that every layer may import, and that executors unpickle.

`docs/configuration.md` describes each setting.
"""

import os
from dataclasses import dataclass, field
from typing import Any

from anchorbolt.config.declaration import DESTINATION, FLAG, SECONDS, SHARE, Checked, setting, text, whole
from anchorbolt.config.providers import DATA_DIRECTORY, ProviderSettings
from anchorbolt.config.spark_options import SparkOptions
from anchorbolt.errors import ConfigError

DEAD_LETTER = "topology.dead.letter"
TICK_SECS = "topology.tick.tuple.freq.secs"


@dataclass(frozen=True, kw_only=True)
class Settings(Checked):
    """All settings of a run."""

    cache_entries: int = setting(whole(0), 200_000, key="topology.state.cache.max.entries")
    pending_entries: int = setting(whole(1), 100_000, key="topology.state.pending.max.entries")
    state_ttl_secs: float | None = setting(SECONDS, None, key="topology.state.ttl.secs")
    closes_windows: bool = setting(FLAG, False, key="topology.windows.close.when.empty")
    timers_per_wave: int = setting(whole(1, unit="timers"), 50_000, key="topology.timers.per.wave")
    blob_bytes: int = setting(whole(1024, 1 << 28, unit="bytes"), 1 << 20, key="topology.transfer.blob.bytes")
    message_timeout_secs: int = setting(whole(1, unit="seconds"), 30, key="topology.message.timeout.secs")
    task_timeout_secs: int | None = setting(whole(1, unit="seconds"), None, key="topology.task.timeout.secs")
    max_spout_pending: int | None = setting(whole(1, unit="tuples"), None, key="topology.max.spout.pending")
    acker_executors: int | None = setting(whole(0, 65_535), None, key="topology.acker.executors")
    message_timeouts: bool = setting(FLAG, True, key="topology.enable.message.timeouts")
    fail_policy: str | None = setting(text("exclude or commit", "exclude|commit"), None, key="topology.fail.policy")
    tick_secs: float | None = setting(SECONDS, None, key=TICK_SECS)
    dead_letter: Any = setting(DESTINATION, None, key=DEAD_LETTER)
    most_dead_letters: int = setting(whole(1), 100, key="topology.dead.letter.max.per.wave")
    max_tuple_retries: int = setting(whole(0), 3, key="topology.max.tuple.retries")
    backpressure: bool = setting(FLAG, True, key="topology.backpressure.enable")
    backpressure_high: float = setting(SHARE, 0.9, key="topology.backpressure.high.watermark")
    backpressure_low: float = setting(SHARE, 0.4, key="topology.backpressure.low.watermark")
    intake_tuples: int = setting(whole(1, unit="tuples"), 100_000, key="topology.spout.intake.tuples")
    intake_bytes: int = setting(whole(1024, 1 << 30, unit="bytes"), 16 << 20, key="topology.spout.intake.bytes")
    buffer_tuples: int = setting(whole(1), 16_384, key="topology.transfer.buffer.tuples")
    workers: int = setting(whole(0, 10_000, unit="workers"), 0, key="topology.workers")
    spouts_in: str = setting(text("driver or workers", "driver|workers"), "driver", key="topology.spouts.in")
    worker_buffer_mb: int = setting(whole(1, 1 << 20, unit="MB"), 256, key="topology.worker.buffer.mb")
    provider: ProviderSettings = field(default_factory=ProviderSettings)
    spark: SparkOptions = field(default_factory=SparkOptions)
    namespace_prefix: str | None = setting(
        text(
            "empty, or 1 to 128 of the characters A-Z a-z 0-9 _ . - without a leading dot",
            r"([A-Za-z0-9_\-][A-Za-z0-9_.\-]{0,127})?",
        ),
        None,
        key="topology.state.namespace.prefix",
    )
    checkpoint_interval_ms: int = setting(
        whole(100, unit="milliseconds"), 1000, key="topology.state.checkpoint.interval.ms"
    )
    checkpoint_location: str | None = setting(text("a path or a URI"), None, key="topology.checkpoint.location")
    accept_state_loss: bool = setting(FLAG, False, key="topology.state.accept.loss")
    rescale_state: bool = setting(FLAG, False, key="topology.state.rescale")
    accept_new_query: bool = setting(FLAG, False, key="topology.checkpoint.accept.new.query")
    max_batch_retries: int = setting(whole(0), 3, key="topology.max.batch.retries")
    metrics_port: int | None = setting(whole(0, 65_535, what="a port"), None, key="topology.metrics.port")
    ui_port: int | None = setting(whole(0, 65_535, what="a port"), None, key="topology.ui.port")
    ui_host: str = setting(text("a name or an address", r"[^@/\s]+"), "127.0.0.1", key="topology.ui.host")
    ui_actions: bool = setting(FLAG, False, key="topology.ui.actions")
    ui_token_env: str | None = setting(text("the name of an environment variable"), None, key="topology.ui.tokenEnv")
    ui_token_file: str | None = setting(text("the path of a file"), None, key="topology.ui.tokenFile")
    health_max_checkpoint_age_secs: float = setting(SECONDS, 300, key="topology.health.max.checkpoint.age.secs")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.backpressure_low > self.backpressure_high:
            raise ConfigError(
                f"topology.backpressure.low.watermark is {self.backpressure_low}, which is above "
                f"topology.backpressure.high.watermark, {self.backpressure_high}. Lower the one or raise the other.",
                key="topology.backpressure.low.watermark",
            )
        if self.spouts_in == "workers" and not self.workers:
            raise ConfigError(
                "topology.spouts.in is workers, and topology.workers is 0. Set topology.workers (anchorbolt run "
                "--workers), or leave topology.spouts.in out.",
                key="topology.spouts.in",
            )
        if self.checkpoint_interval_ms >= self.message_timeout_secs * 1000:
            raise ConfigError(
                f"topology.state.checkpoint.interval.ms is {self.checkpoint_interval_ms}, which is not below "
                f"topology.message.timeout.secs, {self.message_timeout_secs} s. Lower the interval or raise the "
                "timeout.",
                key="topology.state.checkpoint.interval.ms",
            )

    @property
    def most_buffer_bytes(self) -> int:
        """How many bytes of emitted tuples wait in one buffer of a task, and how many of full blobs; both about."""
        return 4 * self.blob_bytes

    @property
    def tree_timeout_secs(self) -> int | None:
        """How long a tuple tree may stay open after its wave; None means no limit."""
        return self.message_timeout_secs if self.message_timeouts else None

    def checkpoint_location_of(self, topology: str) -> str:
        """Return a topology's checkpoint location, a path or a URI; `Locations.qualified` resolves a path."""
        return self.checkpoint_location or os.path.join(DATA_DIRECTORY, topology, "checkpoint")

    def namespace_prefix_of(self, topology: str) -> str:
        """Return the part before the colon in the namespaces of a topology; empty for none."""
        return topology if self.namespace_prefix is None else self.namespace_prefix
