"""What a user may import: these modules, which hold these names and no others. All other modules are internal."""

import importlib
import inspect
import pkgutil
import subprocess
import sys

import pytest

import anchorbolt
from anchorbolt import errors

PUBLIC = {
    "anchorbolt": "__version__ open_state state_frame",
    "anchorbolt.bolts": """
        ArrowOutputCollector BaseArrowBolt BaseBasicBolt BaseRichBolt BaseStatefulArrowBolt BaseStatefulBolt
        BasicOutputCollector OutputCollector DataFrameSink KafkaSink ParquetSink FailedException ReportedFailedException
        Timer Timers
    """,
    "anchorbolt.config": "Configuration Secret load_conf",
    "anchorbolt.engine": "LocalCluster RunHandle RunStatus SparkCluster WaveReport",
    "anchorbolt.metrics": "Counter Gauge Histogram Timer",
    "anchorbolt.migration_tools.base64_to_binary": """
        Action Content HashResult Interrupted MigrationOptions NamespaceResult Report Wrapper
        discard_backup migrate undo verify
    """,
    "anchorbolt.migration_tools.copy": "CopyReport copy_namespace copy_topology",
    "anchorbolt.querying": "StateReader open_state",
    "anchorbolt.serialization": "MAX_DEPTH Codec JsonCodec MsgpackCodec pack unpack",
    "anchorbolt.spouts": "BaseRichSpout GeneratorSpout RedisStreamsSpout Spout StreamSpout",
    "anchorbolt.state_backends": "AttemptState KeyValueState Serializer State",
    "anchorbolt.state_backends.contract": """
        CHECKSUM_FACTOR NOTHING_COMMITTED NO_FENCE START_OVER Fence KeyRange NamespaceHead Seal SizeLimits
        StagedAttempt StagedSlice ReadPosition StateProvider StateStorage
    """,
    "anchorbolt.state_backends.hbase": "HBaseStateProvider",
    "anchorbolt.state_backends.redis": "RedisClusterStateProvider RedisStateProvider",
    "anchorbolt.state_backends.rules": """
        AttemptRecord Metadata check_attempt check_commit check_fence check_namespace check_reading check_rollback
        check_write divided head_of is_namespace next_record sealed_record task_namespace
    """,
    "anchorbolt.state_backends.sqlite": "SqliteStateProvider",
    "anchorbolt.storm.kryo": "JavaValue StoredForm StormDecoder Tombstone detect",
    "anchorbolt.streams": """
        CustomStreamGrouping GlobalStreamId OutputFieldsDeclarer TopologyContext Tuple stable_hash
    """,
    "anchorbolt.testing": """
        CrashReport CrashRunner CrashTestError FakeRedisStateProvider Fault FaultAction FaultPoint
        FeederSpout LocalCluster ManualClock StateStorageConformance TupleCapture Victim check_agreement
    """,
    "anchorbolt.testing.conformance": "StateStorageConformance",
    "anchorbolt.topology": "BoltDeclarer Topology TopologyBuilder",
    "anchorbolt.transactional": """
        BackingMap BaseBatchBolt BaseTransactionalBolt BatchOutputCollector Committer CommitterTransactionalEmitter
        CommitterTransactionalSpout FilesTransactionalSpout KafkaTransactionalSpout MemoryTransactionalSpout OpaqueMap
        OpaqueMemoryTransactionalSpout OpaquePartitionedEmitter OpaquePartitionedTransactionalSpout
        OpaqueRedisTransactionalSpout OpaqueValue PartitionedCoordinator PartitionedEmitter
        PartitionedTransactionalSpout RedisTransactionalSpout SparkTransactionalSpout TransactionAttempt
        TransactionalCoordinator TransactionalEmitter TransactionalMap TransactionalSpout
        TransactionalTopologyBuilder TransactionalValue
        update_opaque update_transactional
    """,
    "anchorbolt.ui": "UiServer",
    "anchorbolt.windows": """
        BaseArrowWindowBolt BaseStatefulWindowedBolt BaseWindowBolt BaseWindowedBolt Deduplicate IntervalJoin JoinBolt
        RollingCount Session Sliding TopN Tumbling TupleWindow Window WindowCollector
    """,
}


def modules() -> list[str]:
    found = pkgutil.walk_packages(anchorbolt.__path__, f"{anchorbolt.__name__}.")
    return [anchorbolt.__name__, *(module.name for module in found)]


@pytest.mark.parametrize("name", PUBLIC)
def test_a_public_module_holds_these_names(name: str) -> None:
    module = importlib.import_module(name)
    assert sorted(module.__all__) == sorted(PUBLIC[name].split())
    assert [listed for listed in module.__all__ if not hasattr(module, listed)] == []


@pytest.mark.parametrize("name", [*PUBLIC, "anchorbolt.errors"])
def test_a_public_name_and_its_methods_say_what_they_do(name: str) -> None:
    module = importlib.import_module(name)
    found = {listed: getattr(module, listed) for listed in module.__all__}
    members = {
        f"{owner}.{member}": function
        for owner, kind in found.items()
        if inspect.isclass(kind)
        for member, function in vars(kind).items()
        if not member.startswith("_") and (inspect.isfunction(function) or isinstance(function, property))
    }
    documented = {key: each for key, each in found.items() if callable(each)} | members
    assert [key for key, each in documented.items() if not inspect.getdoc(each)] == []


def test_every_error_is_public() -> None:
    kinds = {name for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, Exception)}
    assert kinds == set(errors.__all__)


def test_a_module_that_is_not_public_lists_no_names() -> None:
    internal = [name for name in modules() if name not in {*PUBLIC, "anchorbolt.errors"}]
    assert [name for name in internal if hasattr(importlib.import_module(name), "__all__")] == []


def test_the_tools_for_tests_can_all_be_imported_without_the_packages_that_some_need() -> None:
    program = (
        "import sys\n"
        "for package in ('hypothesis', 'pytest', 'fakeredis'): sys.modules[package] = None\n"
        "from anchorbolt.testing import *\n"
        "print(LocalCluster, 'check_agreement' in globals())\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "<class 'anchorbolt.run.local_cluster.LocalCluster'> False\n", done.stderr
