"""Excerpts and tables of pages agree with the code."""

import inspect
import re
import shlex
from collections.abc import Iterator
from typing import Any

import pytest

from anchorbolt.bolts import BaseStatefulBolt
from anchorbolt.bolts.collector import BasicOutputCollector, OutputCollector
from anchorbolt.config.loading import load_conf
from anchorbolt.spouts import BaseRichSpout
from anchorbolt.spouts.collector import SpoutOutputCollector
from anchorbolt.state_backends import rules
from anchorbolt.state_backends.contract import StateStorage
from anchorbolt.testing import FaultPoint, FeederSpout, LocalCluster, ManualClock, TupleCapture
from anchorbolt.topology import TopologyBuilder
from tests.docs.pages import ROOT, Page, text_of


def test_the_job_of_the_readme_is_the_text_of_the_example() -> None:
    [job] = [block.text for block in Page("README.md").blocks if block.file == "word_count.py"]
    _, _, without_docstring = text_of("examples/word_count/job.py").partition('"""\n\n')
    body, guard, _ = without_docstring.partition("\n\nif __name__")
    assert guard
    assert job == body


def test_the_commands_of_the_readme_for_other_stores_name_the_job_and_each_store_by_set_alone() -> None:
    chosen = []
    for block in Page("README.md").blocks:
        if block.section == "Another store":
            arguments = shlex.split(block.text.replace("\\\n", ""))
            assert arguments[:4] == ["anchorbolt", "run", "word_count.py:topology", "--until-empty"]
            assert set(arguments[4::2]) == {"--set"}
            chosen.append(load_conf(overrides=arguments[5::2]).settings.provider.name)
    assert chosen == ["redis", "redis-cluster", "hbase"]


def lines_of(text: str) -> Iterator[str]:
    return (line.strip() for line in text.splitlines())


def test_the_excerpts_for_authors_of_providers_are_the_examples_own_text() -> None:
    blocks = Page("docs/custom_provider.md").blocks
    excerpts = [block.text for block in blocks if block.language == "python" and not block.file]
    files = sorted((ROOT / "examples" / "postgres_provider").glob("*.py"))
    source = "\n".join("\n".join(lines_of(path.read_text())) for path in files)
    assert len(excerpts) == 3
    assert [excerpt for excerpt in excerpts if "\n".join(lines_of(excerpt)) not in source] == []


def test_every_step_and_every_rule_is_named_for_authors_of_providers() -> None:
    text = text_of("docs/custom_provider.md")
    steps = set(StateStorage.__abstractmethods__) - {"close"}
    named = {name for name in rules.__all__ if name.startswith(("check_", "next_", "sealed_", "head_"))}
    assert {name for name in steps | (named - {"check_attempt"}) if f"`{name}`" not in text} == set()


def test_the_table_says_of_every_fault_point_who_is_there_and_what_a_fault_can_be_for() -> None:
    lines = text_of("docs/testing.md").splitlines()
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines if "| `" in line]
    said = {
        name: (who, can_be_for)
        for names, who, can_be_for, _ in (row for row in rows if len(row) == 4)
        for name in re.findall(r"`(\w+)`", names)
    }
    assert said == {point.name: ("driver" if point.on_driver else "worker", can_be_for(point)) for point in FaultPoint}


def can_be_for(point: FaultPoint) -> str:
    named = {"component": point.has_component, "task": point.has_task, "txid": point.first_txid is not None}
    return ", ".join(name for name, there in named.items() if there) or "nothing but `nth`"


def test_the_tables_for_storms_users_name_every_method_for_spouts_and_bolts() -> None:
    page = text_of("docs/reliability_reference.md")
    columns = [line.split("|")[2] for line in page.partition("## From Storm")[2].splitlines() if line.count("|") == 4]
    named = set(re.findall(r"`(\w+)\(", "".join(columns)))
    for_the_engine = {"begin", "check_call", "flush", "mark", "send_block", "take"}
    methods = {
        name
        for kind in (BaseRichSpout, SpoutOutputCollector, OutputCollector, BasicOutputCollector)
        for name, member in vars(kind).items()
        if inspect.isfunction(member) and not name.startswith("_")
    }
    # `declare_output_fields` is the method of all components.
    assert methods - for_the_engine <= named | {"activate", "deactivate"}
    assert named <= methods | {"declare_output_fields", "get_component_configuration"}


def test_the_signatures_for_storms_users_are_those_of_the_collectors() -> None:
    page = text_of("docs/reliability_reference.md").replace('"default"', "'default'")
    for kind in (SpoutOutputCollector, OutputCollector, BasicOutputCollector):
        for method in (kind.emit, kind.emit_direct):
            parameters = list(inspect.signature(method).parameters.values())[1:]
            bare = inspect.Signature([each.replace(annotation=inspect.Parameter.empty) for each in parameters])
            assert f"`{method.__name__}{bare}`" in page


def test_the_examples_for_storms_bytes_print_what_the_page_shows(capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {}
    blocks = Page("docs/storm_bytes.md").blocks
    for block in blocks:
        if block.language == "python":
            exec(block.text, names)
    [shown] = [block.text for block in blocks if block.language == "text"]
    assert capsys.readouterr().out.strip() == shown.strip()
    assert names["decoder"].decode_key(b"\x01\x00acme.Colou\xf2\x01\x02").to_json()["v"] == "GREEN"


def test_the_bolt_with_ticks_emits_its_total() -> None:
    [bolt] = [block.text for block in Page("docs/reliability_reference.md").blocks if "is_tick" in block.text]
    names: dict[str, Any] = {"BaseStatefulBolt": BaseStatefulBolt}
    exec(bolt, names)
    captured, clock = TupleCapture(), ManualClock()
    builder = TopologyBuilder()
    builder.set_spout("in", FeederSpout(["amount"], [[(2,), (3,)]]))
    builder.set_bolt("total", names["Total"]()).global_grouping("in")
    builder.set_bolt("out", captured).global_grouping("total")
    handle = LocalCluster(clock=clock).submit(builder.create_topology("ticks"), until_empty=False)
    while not handle.reports:
        assert not handle.await_termination(0.05)
    assert captured.tuples == []
    clock.advance(10.5)
    while not captured.tuples:
        assert not handle.await_termination(0.05)
    assert captured.tuples == [(5,)]
    assert handle.stop(30)
