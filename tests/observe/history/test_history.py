"""The history at a checkpoint location: what is kept, how much, and across how many drivers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from anchorbolt.config.masking import Masking
from anchorbolt.files import Folder, open_folder
from anchorbolt.observe.history import writer as writers
from anchorbolt.observe.history.records import FailedMessage, Record, Wave, decoded, encoded, without_secrets
from anchorbolt.observe.history.segments import FILES_KEPT, HistoryFiles, read_history, read_latest
from anchorbolt.observe.history.writer import HistoryWriter
from tests.cli.command import wait_until


def wave(txid: int, generation: int = 1) -> Record:
    return Wave(at=float(txid), generation=generation, txid=txid)


def txids(folder: Folder) -> list[int]:
    return [record.txid for record in read_history(folder)]


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return open_folder(str(tmp_path))


def test_the_latest_hundred_files_are_kept(folder: Folder) -> None:
    files = HistoryFiles(folder, 1)
    for start in range(0, 100 * FILES_KEPT + 1234, 617):
        files.write([wave(txid) for txid in range(start, start + 617)])
    kept = txids(folder)
    assert kept == list(range(kept[0], kept[-1] + 1))
    assert 100 * (FILES_KEPT - 1) < len(kept) <= 100 * FILES_KEPT
    assert len(list(folder.names("anchorbolt/history"))) == FILES_KEPT


def test_the_reasons_of_failures_hold_no_secret_of_the_configuration() -> None:
    secret = 'a"secret'
    text = f"cannot log in with {secret}"
    message = FailedMessage("in", "1", "count", 0, text, timed_out=False)
    record = structs.replace(wave(0), failures=[text], messages=[message], executed={"count": 1})
    masked, why = without_secrets(record, Masking([secret])), "cannot log in with ***"
    assert masked == structs.replace(record, failures=[why], messages=[structs.replace(message, reason=why)])
    assert without_secrets(wave(0), Masking(["wave"])) == wave(0)


@pytest.mark.parametrize("secret", ["1795", "true", "txid", "failures"])
def test_a_secret_that_is_a_number_or_the_name_of_a_field_leaves_the_record_whole(secret: str) -> None:
    record = structs.replace(wave(1795), failures=[f"no {secret} here"])
    assert without_secrets(record, Masking([secret])) == structs.replace(record, failures=["no *** here"])


def test_texts_of_subclasses_and_out_of_bounds_numbers_are_kept_and_fail_no_run() -> None:
    class Text(str):
        pass

    record = structs.replace(wave(1), failures=[Text("no secret here")], offsets_behind=2**60, executed={Text("a"): 1})
    masked = without_secrets(record, Masking(["secret"]))
    assert json.loads(encoded(masked))["failures"] == ["no *** here"]


def test_drivers_that_start_again_and_again_keep_a_file_each(folder: Folder) -> None:
    for generation in range(1, FILES_KEPT + 30):
        HistoryFiles(folder, generation).write([wave(3 * generation + number, generation) for number in range(3)])
    assert txids(folder) == list(range(3 * 30, 3 * (FILES_KEPT + 30)))


def test_a_driver_that_was_replaced_destroys_nothing(folder: Folder) -> None:
    older, newer = HistoryFiles(folder, 1), HistoryFiles(folder, 2)
    older.write([wave(0)])
    newer.write([wave(1, 2)])
    older.write([wave(1)])
    newer.write([wave(2, 2)])
    assert sorted((record.generation, record.txid) for record in read_history(folder)) == [
        (1, 0),
        (1, 1),
        (2, 1),
        (2, 2),
    ]


def test_a_write_that_fails_is_repeated_and_writes_nothing_twice(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    files, records, replace = HistoryFiles(folder, 1), [wave(txid) for txid in range(250)], type(folder).replace
    calls = [0]

    def fails(self: Any, name: str, data: bytes) -> None:
        calls[0] += 1
        if calls[0] == 2:
            raise OSError("no room")
        replace(self, name, data)

    monkeypatch.setattr(type(folder), "replace", fails)
    with pytest.raises(OSError, match="no room"):
        files.write(records)
    assert txids(folder) == list(range(100))
    files.write(records)
    assert txids(folder) == list(range(250))


def test_the_latest_records_of_earlier_drivers_are_read_from_few_files(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    for generation, number in ((1, 950), (2, 30), (3, 20)):
        HistoryFiles(folder, generation).write([wave(txid, generation) for txid in range(number)])
    opened, read_end = list[str](), type(folder).read_end

    def reads(self: Any, name: str, most: int) -> bytes | None:
        opened.append(name)
        return read_end(self, name, most)

    monkeypatch.setattr(type(folder), "read_end", reads)
    found = [(record.generation, record.txid) for record in read_latest(folder, 300, before=3)]
    assert found == [*((1, txid) for txid in range(680, 950)), *((2, txid) for txid in range(30))]
    assert len(opened) <= 6  # with that of the changes
    assert read_latest(folder, 300, before=1) == []


def test_the_records_of_earlier_drivers_are_handed_on(folder: Folder) -> None:
    HistoryFiles(folder, 1).write([wave(0), wave(1)])
    handed = list[list[Record]]()
    writer = HistoryWriter(folder, 2, earlier=handed.append)
    writer.add(wave(2, 2))
    writer.close()
    assert handed == [[wave(0), wave(1)]]
    assert txids(folder) == [0, 1, 2]


def test_damaged_lines_are_left_out() -> None:
    whole = encoded(wave(1))
    lines = [b"{", b"[]\n", b"\xff\n", b'{"kind":"wave"}\n', b"[" * 100_000, b'{"a":' * 9000, whole]
    assert decoded(lines) == [wave(1)]


@pytest.mark.parametrize(
    "odd",
    [
        '"at":1e400',
        '"at":NaN',
        '"at":-1',
        '"at":9e14',
        '"txid":1.5',
        '"txid":true',
        '"total_ms":' + "9" * 400,
        '"rounds":"two"',
        '"kind":["wave"]',
        '"letters":5',
        '"letters":[{"reason":"no"}]',
        '"messages":[7]',
        '"timed_out":{"in":3}',
        '"raised":{"traceback":"no"}',
        '"failures":{"a":1}',
        '"phases_ms":"x"',
        '"executed":{"count":null}',
        '"tasks":[1]',
        '"tasks":{"count":{"start_ms":"x"}}',
        '"throttled":7',
    ],
)
def test_a_record_with_a_field_of_another_type_is_left_out(odd: str) -> None:
    plain = encoded(wave(1)).rstrip().removesuffix(b"}")
    assert decoded([plain + b"," + odd.encode() + b"}\n"]) == []
    assert decoded([plain + b',"of_later":5}\n']) == [wave(1)]


def test_a_location_that_cannot_be_written_is_tried_again_and_the_oldest_are_dropped(
    folder: Folder, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(writers, "_PAUSE_S", 0.001)
    monkeypatch.setattr(writers, "_MOST_WAITING", 10)
    write, away = HistoryFiles.write, [True]

    def refuses(self: HistoryFiles, records: list[Record]) -> None:
        if away[0]:
            raise OSError("away")
        write(self, records)

    monkeypatch.setattr(HistoryFiles, "write", refuses)
    writer = HistoryWriter(folder, 1)
    for txid in range(30):
        writer.add(wave(txid))
    wait_until(lambda: bool(caplog.records), "it has failed")
    away[0] = False
    writer.add(wave(30))
    writer.close()
    kept = txids(folder)
    assert kept == list(range(kept[0], 31))
    assert len(caplog.records) == 1
