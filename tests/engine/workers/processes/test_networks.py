"""Faults of the network between workers: a wave fails or takes longer, and nothing is lost or counted twice."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.command import wait_until
from tests.engine.workers.processes.jobs import FedSpout, Marks, counting, counts_of, word_of
from tests.engine.workers.processes.network import Network
from tests.engine.workers.processes.runs import PATIENCE_S, StartedRun, started
from tests.engine.workers.processes.transactions import batches, in_memory

pytestmark = pytest.mark.slow

BATCH = 300
CONF = {"topology.enable.message.timeouts": False}


@pytest.fixture
def network() -> Iterator[Network]:
    network = Network()
    yield network
    network.close()


class Fed:
    """A word count on two workers behind proxies, which a test feeds."""

    def __init__(self, run: StartedRun, spout: FedSpout) -> None:
        self.run, self.spout, self.sent = run, spout, 0

    def feed(self) -> None:
        self.spout.feed(self.sent, [word_of(number) for number in range(self.sent, self.sent + BATCH)])
        self.sent += BATCH

    def wait_until_counted(self) -> None:
        wait_until(lambda: sum(self.run.handle.state("count").values()) >= self.sent, "all counts", PATIENCE_S)

    def finish(self) -> None:
        """Feed once more; all that was ever fed must be counted once."""
        self.feed()
        self.wait_until_counted()
        self.run.stop()
        assert self.run.handle.state("count") == counts_of(self.sent)


@pytest.fixture
def fed(tmp_path: Path, network: Network) -> Iterator[Fed]:
    spout = FedSpout(str(tmp_path))
    topology = counting(spout, Marks(tmp_path))
    conf = {**CONF, "topology.message.timeout.secs": 10}
    with started(topology, tmp_path, until_empty=False, network=network, conf=conf) as run:
        fed = Fed(run, spout)
        fed.feed()
        fed.wait_until_counted()
        yield fed


def test_a_network_that_resets_all_connections_fails_waves_until_it_is_well(fed: Fed, network: Network) -> None:
    before = fed.run.wait_for_workers()
    network.begin("reset")
    fed.feed()
    wait_until(lambda: len(fed.run.runner.failed) >= 2, "two failed waves", PATIENCE_S)
    network.end()
    after = fed.run.wait_for_workers()
    fed.finish()
    assert network.done["reset"] > 0
    assert after == before


@pytest.mark.parametrize("fault", ["drop", "stall"])
def test_bytes_that_are_lost_without_a_word_fail_the_wave(fed: Fed, network: Network, fault: str) -> None:
    network.begin(fault)
    fed.feed()
    wait_until(lambda: network.done[fault] > 0, "the fault", PATIENCE_S)
    network.end()
    fed.finish()


@pytest.mark.parametrize("fault", ["half", "garbage"])
def test_bytes_that_are_no_frames_fail_the_wave_once(fed: Fed, network: Network, fault: str) -> None:
    network.begin(fault)
    fed.feed()
    fed.wait_until_counted()
    assert network.done[fault] == 1
    assert len(fed.run.runner.failed) >= 1
    fed.finish()


def test_a_blob_that_comes_twice_is_not_counted_twice(fed: Fed, network: Network) -> None:
    network.begin("replay")
    fed.feed()
    fed.wait_until_counted()
    assert network.done["replay"] == 1
    fed.finish()


def test_a_slow_network_fails_no_wave(fed: Fed, network: Network) -> None:
    before = fed.run.wait_for_workers()
    network.begin("slow")
    fed.feed()
    fed.wait_until_counted()
    assert network.done["slow"] > 0
    network.end()
    after = fed.run.wait_for_workers()
    fed.finish()
    assert fed.run.runner.failed == []
    assert after == before


@pytest.mark.parametrize("fault", ["reset", "half", "garbage", "replay"])
def test_faults_while_batches_are_processed_cost_no_count(tmp_path: Path, network: Network, fault: str) -> None:
    messages = 4000
    conf = {"topology.max.spout.pending": 4}
    with started(batches(in_memory(messages, 50), Marks(tmp_path)), tmp_path, network=network, conf=conf) as run:
        for _ in range(3):
            run.wait_for_waves(2)
            done = network.done[fault]
            network.begin(fault)
            wait_until(lambda done=done: network.done[fault] > done, fault, PATIENCE_S)  # type: ignore[misc]
            network.end()
        run.finish()
        assert run.handle.state("count") == counts_of(messages)
