"""A `Fault` that is wrong, or could never strike, is refused when it is created."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from anchorbolt.errors import ConfigError
from anchorbolt.faults.injection import FaultFolder
from anchorbolt.faults.points import PointReached
from anchorbolt.testing import Fault, FaultAction, FaultPoint, Victim


@pytest.mark.parametrize(
    ("values", "hint"),
    [
        ({"point": "state.nope"}, "driver.claimed, "),
        ({"point": "state.seeled"}, "Did you mean 'state.sealed'?"),
        ({"point": "SEALED"}, "Did you mean 'state.sealed'?"),
        ({"point": "DECIDED"}, "Did you mean 'decision.stored'?"),
        ({"point": None}, "FaultPoint"),
        ({"action": "kil"}, "Did you mean 'kill'?"),
        ({"victim": "drivers"}, "Did you mean 'driver'?"),
        *(({"nth": nth}, "at least 1") for nth in (0, "2", True)),
        ({"task_index": -1}, "at least 0"),
        *(({"txid": txid}, "at least -1") for txid in ("1", -2)),
        *(({"seconds": seconds}, "at least 0") for seconds in (-1, float("nan"), float("inf"), "1")),
        *(({"component": component}, "a component's id") for component in ("", 3)),
    ],
    ids=str,
)
def test_a_value_that_cannot_be_used_is_refused_by_its_name(values: dict[str, Any], hint: str) -> None:
    [(name, value)] = values.items()
    with pytest.raises(ConfigError) as refusal:
        Fault(**{"point": FaultPoint.SEALED, **values})
    assert refusal.value.message.startswith(f"Fault: {name} is {value!r}.")
    assert hint in refusal.value.message


def test_what_a_point_has_is_accepted_and_members_may_be_given_by_their_values() -> None:
    Fault(FaultPoint.SINK_PUBLISHED, component="out", txid=0)
    Fault(FaultPoint.SINK_FILE_MOVED, component="out", task_index=1)
    Fault(FaultPoint.DECIDED, txid=-1)
    given: Any = {"point": "state.sealed", "action": "raise", "victim": "worker"}
    fault = Fault(**given, txid=1)
    assert fault == Fault(FaultPoint.SEALED, FaultAction.RAISE, victim=Victim.WORKER, txid=1)
    assert fault.fits(PointReached(FaultPoint.SEALED, "count", 0, 1))


@pytest.mark.parametrize(
    ("point", "values"),
    [
        (FaultPoint.DECIDED, {"component": "ledger"}),
        (FaultPoint.SINK_PUBLISHED, {"task_index": 0}),
        (FaultPoint.CLAIMED, {"txid": 1}),
        (FaultPoint.SEALED, {"txid": -1}),
    ],
)
def test_what_a_point_never_has_is_refused(point: FaultPoint, values: dict[str, Any]) -> None:
    with pytest.raises(ConfigError) as refusal:
        Fault(point, **values)
    assert refusal.value.message.startswith(f"Fault: {next(iter(values))} does not fit FaultPoint.{point.name} ")


@pytest.mark.parametrize(
    ("fault", "hint"), [({"point": "state.seeled"}, "Did you mean 'state.sealed'"), ({"nth": 1}, "point")]
)
def test_a_wrong_fault_in_a_file_is_refused_with_the_files_name(
    tmp_path: Path, fault: dict[str, Any], hint: str
) -> None:
    (tmp_path / "faults.json").write_text(json.dumps([fault]))
    with pytest.raises(ConfigError) as refusal:
        FaultFolder(tmp_path).on_point(PointReached(FaultPoint.SEALED, "count", 0, 1))
    assert "faults.json" in refusal.value.message
    assert hint in refusal.value.message


def test_a_worker_that_commits_state_for_the_driver_is_noted_as_a_worker(tmp_path: Path) -> None:
    at_commit = PointReached(FaultPoint.NAMESPACE_COMMITTED, "count", 0, 1)
    for in_worker, role, other in ((True, "worker", "driver"), (False, "driver", "worker")):
        folder = FaultFolder(tmp_path / role, in_worker=in_worker)
        folder.write([])
        folder.on_point(at_commit)
        assert folder.pid_of(role) == os.getpid()
        assert folder.pid_of(other) is None
