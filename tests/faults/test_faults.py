"""What a `Fault` may be: what is wrong, or could never strike, is refused when it is made."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from anchorbolt.errors import ConfigError
from anchorbolt.faults.injection import FaultFolder
from anchorbolt.faults.points import PointReached
from anchorbolt.testing import Fault, FaultAction, FaultPoint, Victim


@pytest.mark.parametrize(
    ("values", "parts"),
    [
        ({"point": "state.nope"}, ["point is 'state.nope'", "Pass a FaultPoint, one of CLAIMED, "]),
        ({"point": "state.seeled"}, ["Did you mean FaultPoint.SEALED ('state.sealed')?"]),
        ({"point": "SEALED"}, ["Did you mean FaultPoint.SEALED ('state.sealed')?"]),
        ({"point": None}, ["point is None"]),
        ({"action": "kil"}, ["action is 'kil'", "Did you mean FaultAction.KILL ('kill')?"]),
        ({"victim": "drivers"}, ["victim is 'drivers'", "Did you mean Victim.DRIVER ('driver')?"]),
        ({"nth": 0}, ["nth is 0", "a whole number, counted from 1"]),
        ({"nth": "2"}, ["nth is '2'"]),
        ({"nth": True}, ["nth is True"]),
        ({"task_index": -1}, ["task_index is -1"]),
        ({"txid": "1"}, ["txid is '1'", "a whole number"]),
        ({"txid": -2}, ["txid is -2"]),
        ({"seconds": -1}, ["seconds is -1", "from 0 on"]),
        ({"seconds": float("nan")}, ["seconds is nan"]),
        ({"seconds": "1"}, ["seconds is '1'"]),
        ({"component": ""}, ["component is ''"]),
        ({"component": 3}, ["component is 3"]),
    ],
    ids=str,
)
def test_a_value_that_cannot_be_used_is_refused_by_its_name(values: dict[str, Any], parts: list[str]) -> None:
    with pytest.raises(ConfigError) as refusal:
        Fault(**{"point": FaultPoint.SEALED, **values})
    assert [part for part in parts if part not in refusal.value.message] == [], refusal.value.message


def test_members_may_be_given_by_their_values() -> None:
    given: Any = {"point": "state.sealed", "action": "raise", "victim": "worker"}
    fault = Fault(**given, txid=1)
    assert fault == Fault(FaultPoint.SEALED, FaultAction.RAISE, victim=Victim.WORKER, txid=1)
    assert fault.fits(PointReached(FaultPoint.SEALED, "count", 0, 1))


@pytest.mark.parametrize(
    ("point", "values", "part"),
    [
        (FaultPoint.DECIDED, {"component": "ledger"}, "is reached with no component. Leave it out."),
        (FaultPoint.SINK_PUBLISHED, {"task_index": 0}, "is reached with no task."),
        (FaultPoint.CLAIMED, {"txid": 1}, "is reached with no transaction. Leave it out, and say"),
        (FaultPoint.SEALED, {"txid": -1}, "is reached with no txid below 0."),
    ],
)
def test_what_a_point_is_never_reached_with_is_refused(
    point: FaultPoint, values: dict[str, Any], part: str
) -> None:
    with pytest.raises(ConfigError) as refusal:
        Fault(point, **values)
    assert part in refusal.value.message
    assert f"FaultPoint.{point.name}" in refusal.value.message


def test_what_a_point_is_reached_with_is_taken() -> None:
    Fault(FaultPoint.SINK_PUBLISHED, component="out", txid=0)
    Fault(FaultPoint.SINK_FILE_MOVED, component="out", task_index=1)
    Fault(FaultPoint.DECIDED, txid=-1)


def test_a_wrong_fault_in_a_file_is_shown_with_the_file(tmp_path: Path) -> None:
    (tmp_path / "faults.json").write_text(json.dumps([{"point": "state.seeled"}]))
    with pytest.raises(ConfigError) as refusal:
        FaultFolder(tmp_path).on_point(PointReached(FaultPoint.SEALED, "count", 0, 1))
    assert "faults.json" in refusal.value.message
    assert "Did you mean FaultPoint.SEALED" in refusal.value.message
    assert "Unset" not in refusal.value.message


def test_a_fault_without_a_point_in_a_file_is_no_bare_error(tmp_path: Path) -> None:
    (tmp_path / "faults.json").write_text(json.dumps([{"nth": 1}]))
    with pytest.raises(ConfigError, match=r"faults\.json cannot be read.*point"):
        FaultFolder(tmp_path).on_point(PointReached(FaultPoint.SEALED, "count", 0, 1))
