"""Takes a savepoint of a topology that runs, together with its driver; see `maintenance.live_savepoint`."""

from __future__ import annotations

import tempfile
import threading
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from types import TracebackType

from anchorbolt.checkpoint.decision import DecisionRecord
from anchorbolt.checkpoint.decision_log import RELEASED_SEQ, DecisionLog
from anchorbolt.errors import MigrationRefused
from anchorbolt.files import Folder
from anchorbolt.maintenance.live_savepoint import (
    BEAT_S,
    FOLDER,
    PATIENCE_S,
    Answered,
    Asked,
    NotedWave,
    Progressed,
    SavepointFiles,
)
from anchorbolt.migration_tools import Progress
from anchorbolt.migration_tools.copy import refuse_custom_states
from anchorbolt.migration_tools.savepoints.layers import Layers
from anchorbolt.migration_tools.savepoints.manifest import Manifest
from anchorbolt.migration_tools.savepoints.source_files import check_sources, source_files
from anchorbolt.migration_tools.savepoints.writing import SavepointWriter, counted, parquet_files
from anchorbolt.migration_tools.topology_inspection import TopologySnapshot
from anchorbolt.state_backends.contract import Fence, NamespaceHead, StateProvider
from anchorbolt.state_backends.rules import prefix_of

_PAGE = 2000  # a store answers the waves between two pages
_POLL_S = 0.2
_FIRST_ANSWER_S = 20.0
_TRIES = 3  # to copy the files of the sources, which the run replaces


def take_running(
    provider: StateProvider,
    snapshot: TopologySnapshot,
    checkpoint: Folder,
    place: Folder,
    name: str,
    progress: Progress,
) -> Manifest:
    """Take a savepoint of a topology whose driver holds the fence.

    Raises:
        MigrationRefused: No driver answers, it ends meanwhile, or another command takes a savepoint now.
        StateCorrupted: A task could not write its changes.
    """
    place.remove_tree(name)  # of an interrupted one
    files, writing = SavepointFiles(checkpoint), SavepointWriter(place, name)
    record_namespace = snapshot.record_namespace
    with tempfile.TemporaryDirectory(prefix="anchorbolt-savepoint-") as directory, _Driver(files, snapshot) as driver:
        progress.begin("waiting for the driver", None)
        driver.wait_for(Progressed.KEEPS)
        heads, record = _heads(provider, record_namespace)
        check_sources(snapshot, record, checkpoint)
        layers = {each: Layers(Path(directory, str(number))) for number, each in enumerate(heads)}
        for namespace, of_namespace in layers.items():
            _read(provider, namespace, of_namespace, progress)
        progress.begin("waiting for the end of a wave", None)
        chosen = driver.choose()
        heads, _ = _heads(provider, record_namespace)
        record = DecisionRecord.decode(chosen.record, f"{files.location}/{FOLDER}")
        waves = [wave for number in range(chosen.files) for wave in files.noted(driver.id, number)]
        sources = _copied_sources(writing, checkpoint, record)
        namespaces = {}
        for namespace, at in record.namespaces.items():
            if namespace not in layers:  # no wave had changed it before
                layers[namespace] = Layers(Path(directory, str(len(layers))))
            progress.begin(f"saving {namespace}", None)
            layers[namespace].add_changes(_changes(files, driver.id, namespace, waves))
            head = replace(heads[namespace], committed=at.txid, winner=at.attempt)
            namespaces[namespace] = writing.namespace(namespace, head, layers[namespace].merged())
        with closing(provider.open(record_namespace)) as storage:
            head = replace(storage.head(), fence=Fence(snapshot.generation, RELEASED_SEQ))
        of_record = parquet_files([list(chosen.entries.items())])
        namespaces[record_namespace] = writing.namespace(record_namespace, head, of_record)
        return writing.end(snapshot.topology, prefix_of(record_namespace), record, namespaces, sources)


class _Driver:
    """The driver of the run, which answers a command. Only one command can ask it at a time."""

    def __init__(self, files: SavepointFiles, snapshot: TopologySnapshot) -> None:
        self.id = uuid.uuid4().hex
        self._files = files
        self._generation = snapshot.generation
        self._who = f"generation {snapshot.generation} of {snapshot.topology!r}"
        self._asked = Asked(self.id)
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._problem: Exception | None = None
        self._run_has_ended = False
        self._thread = threading.Thread(target=self._beat, name="anchorbolt-savepoint", daemon=True)

    def __enter__(self) -> _Driver:
        other = self._files.asked()
        ends_at = time.monotonic() + 2 * BEAT_S
        while other is not None and time.monotonic() < ends_at:
            time.sleep(_POLL_S)
            if (again := self._files.asked()) != other and again is not None:
                raise MigrationRefused(
                    f"another command takes a savepoint of {self._who} now. Wait until it has ended."
                )
            other = again
        self._files.ask(self._asked)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()
        with suppress(OSError):
            asked = self._files.asked()
            if asked is not None and asked.id == self.id:
                self._files.withdraw()  # the driver then removes the other files, if there still is one
            if self._run_has_ended:
                self._files.forget()

    def choose(self) -> Answered:
        """Make the driver choose the wave; return its answer."""
        with self._lock:
            self._asked = replace(self._asked, is_read=True)
            self._files.ask(self._asked)
        return self.wait_for(Progressed.CHOSEN)

    def wait_for(self, progressed: Progressed) -> Answered:
        """Wait until the driver is so far, for as long as it answers."""
        beat, heard_at, patience_s = -1, time.monotonic(), _FIRST_ANSWER_S
        while True:
            if self._problem is not None:
                raise self._problem
            answered = self._files.answered()
            if answered is not None and answered.id == self.id:
                has_changed = answered.generation != self._generation  # the next one does not know the waves before it
                self._run_has_ended = answered.progressed is Progressed.ENDED
                if answered.progressed is progressed and not has_changed:
                    return answered
                if self._run_has_ended or has_changed:
                    raise MigrationRefused(f"{self._who} has ended meanwhile: there is no savepoint. Take it again.")
                if answered.beat != beat:
                    beat, heard_at, patience_s = answered.beat, time.monotonic(), PATIENCE_S
            if time.monotonic() - heard_at > patience_s:
                raise MigrationRefused(
                    f"{self._who} holds the fence, but no driver answers at {self._files.location}. Give --conf with "
                    "the file of the run, and start the command where it was started. If the run was killed, start "
                    "and stop it once, or use --take-fence."
                )
            time.sleep(_POLL_S)

    def _beat(self) -> None:
        try:
            while not self._ended.wait(BEAT_S):
                with self._lock:
                    found = self._files.asked()
                    if found is not None and found.id != self.id:
                        raise MigrationRefused(f"another command has begun to take a savepoint of {self._who}.")
                    self._asked = replace(self._asked, beat=self._asked.beat + 1)
                    self._files.ask(self._asked)
        except Exception as error:
            self._problem = error


def _heads(provider: StateProvider, record_namespace: str) -> tuple[dict[str, NamespaceHead], DecisionRecord]:
    """Return the heads of all namespaces with committed data. Raises `MigrationRefused` for a custom state."""
    with closing(provider.open(record_namespace)) as storage:
        record, _ = DecisionLog(storage).load()
    assert record is not None, "a run has claimed it"
    heads = {}
    for namespace in record.namespaces:
        with closing(provider.open(namespace)) as storage:
            heads[namespace] = storage.head()
    refuse_custom_states(heads)
    return heads, record


def _read(provider: StateProvider, namespace: str, layers: Layers, progress: Progress) -> None:
    """Read all entries while waves change them: each that stays, with a value that it had meanwhile."""
    with closing(provider.open(namespace)) as storage:
        progress.begin(f"reading {namespace}", storage.count())
        layers.add_pages(counted(storage.scan(page_size=_PAGE), progress))


def _changes(
    files: SavepointFiles, of: str, namespace: str, waves: Sequence[NotedWave]
) -> Iterator[dict[bytes, bytes | None]]:
    for wave in waves:
        if namespace in wave.winners:
            yield from files.kept(of, namespace, wave.winners[namespace])


def _copied_sources(writing: SavepointWriter, checkpoint: Folder, record: DecisionRecord) -> list[str]:
    for _ in range(_TRIES - 1):
        with suppress(FileNotFoundError):
            return [writing.source(checkpoint, each) for each in source_files(checkpoint, record)]
    return [writing.source(checkpoint, each) for each in source_files(checkpoint, record)]
