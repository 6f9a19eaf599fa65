"""Marks each test by the servers that it uses, and lets one of pytest-xdist's workers run all tests of a server."""

import pytest

# A test's tier and its worker follow from the fixtures that it uses. On several workers, all tests of a shared server
# run on one of them, so that this server is started once.
TIERS = {
    "hbase_program": pytest.mark.slow,
    "hdfs_program": pytest.mark.slow,
    "kafka_program": pytest.mark.slow,
    "start_machines": pytest.mark.slow,
    "s3_program": pytest.mark.slow,
    "redis_cluster": pytest.mark.slow,
    "start_redis_cluster": pytest.mark.slow,
    "hbase_framed": pytest.mark.thorough,
    "killable_server": pytest.mark.thorough,  # an HBase, killed again and again
    "postgres_program": pytest.mark.thorough,
    "prometheus_program": pytest.mark.thorough,
    "chromium_program": pytest.mark.thorough,
}
SHARED = (
    "hbase_framed",
    "hbase_server",
    "hdfs_server",
    "kafka_server",
    "s3_server",
    "machines",
    "killable_server",
    "spark",
    "redis_cluster",
    "postgres_server",
    "browser",
)
# Servers that share a worker.
TOGETHER = {"hbase_framed": "hbase_server", "hdfs_server": "spark", "s3_server": "spark"}
# Parameters by which tests choose one of these fixtures at run time.
CHOSEN = {
    "hbase": "hbase_server",
    "hbase_server": "hbase_server",
    "hbase_provider": "hbase_server",
    "hbase_framed": "hbase_framed",
    "hbase_framed_provider": "hbase_framed",
    "redis_cluster": "redis_cluster",
    "cluster": "redis_cluster",
    "hadoop-disk": "spark",
}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark tests by their fixtures; on several workers, let the long tests come first."""
    for item in items:
        used = set(getattr(item, "fixturenames", ()))
        if isinstance(item, pytest.Function) and hasattr(item, "callspec"):
            chosen = [value for value in item.callspec.params.values() if isinstance(value, str)]
            used |= {CHOSEN[value] for value in chosen if value in CHOSEN}
        for fixture in used & TIERS.keys():
            item.add_marker(TIERS[fixture])
        group = next((fixture for fixture in SHARED if fixture in used), None)
        if group is not None and getattr(config.option, "loadgroup", False):
            put_into_group(item, TOGETHER.get(group, group))
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: item.get_closest_marker("slow") is None)


def put_into_group(item: pytest.Item, group: str) -> None:
    """Let one of pytest-xdist's workers run all tests of a group. It knows a group by the end of the test's id."""
    if hasattr(item, "_id"):  # pytest-xdist 3.8 writes to `_nodeid`, which pytest 9.2 does not read
        item._id = type(item._id).parse(f"{item.nodeid}@{group}")
    else:
        item.add_marker(pytest.mark.xdist_group(group))
