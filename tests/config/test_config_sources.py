"""Where a configuration comes from: files, mappings, overrides, and passwords from elsewhere."""

import copy
import json
import pickle
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anchorbolt.config.loading import load_conf
from anchorbolt.config.providers import RedisSettings, TlsSettings
from anchorbolt.config.secret import Secret
from anchorbolt.errors import ConfigError
from tests.config.test_config import CONFIG, DEFAULTS


def redis(**pool: Any) -> RedisSettings:
    return load_conf({CONFIG: {"jedisPoolConfig": pool}}).settings.provider.redis


@pytest.mark.parametrize("suffix", [".yaml", ".yml", ".conf", ".json"])
def test_file_is_read_as_yaml_or_json(tmp_path: Path, suffix: str) -> None:
    file = tmp_path / f"conf{suffix}"
    json_text = json.dumps({"topology.message.timeout.secs": 60, CONFIG: {"directory": "here"}, "own": "ü"})
    yaml_text = f"topology.message.timeout.secs: 60\n{CONFIG}:\n  directory: here\nown: ü  # a comment\n"
    file.write_text(json_text if suffix == ".json" else yaml_text, encoding="utf-8")
    conf = load_conf(file=file)
    assert conf.settings.message_timeout_secs == 60
    assert conf.settings.provider.directory == "here"
    assert conf["own"] == "ü"


def test_empty_file_configures_nothing(tmp_path: Path) -> None:
    file = tmp_path / "conf.yaml"
    file.write_text("# nothing yet\n")
    assert dict(load_conf(file=str(file))) == DEFAULTS


def test_keys_of_a_merged_yaml_mapping_may_be_overridden(tmp_path: Path) -> None:
    (tmp_path / "conf.yaml").write_text("base: &base {x: 1, y: 2}\nown: {<<: *base, y: 3}\n")
    assert load_conf(file=tmp_path / "conf.yaml")["own"] == {"x": 1, "y": 3}


def test_mapping_ranks_above_file_and_overrides_above_both(tmp_path: Path) -> None:
    file = tmp_path / "conf.yaml"
    file.write_text("a: file\nb: file\nc: file\n")
    conf = load_conf({"b": "mapping", "c": "mapping"}, file=file, overrides=["c=first", "c=last"])
    assert [conf[key] for key in "abc"] == ["file", "mapping", "last"]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("k=5", 5),
        ("k=true", True),
        ("k=1.5", 1.5),
        ("k=word", "word"),
        ("k='5'", "5"),
        ("k=a=b", "a=b"),
        ("k=null", None),
        ("k=", ""),
        ("k=[1, 2]", [1, 2]),
        (" k =x", "x"),
        ("k=/data/run #2", "/data/run #2"),
        ("k=#tag", "#tag"),
        ("k=Hello: world", "Hello: world"),
        ("k=0123", "0123"),
        ("k=12:30:45", "12:30:45"),
        ("k=2024-01-01", "2024-01-01"),
        ("k=no", "no"),
        ("k=~", "~"),
        ("k= spaced ", " spaced "),
        ("k=- a", "- a"),
        ("k=@x", "@x"),
        ("k=!x y", "!x y"),
        ("k=*", "*"),
        ("k='a' #2", "'a' #2"),
        ("k=[1] #2", "[1] #2"),
        ('k="q"x', '"q"x'),
        ("k=-5", -5),
        ("k=.5", 0.5),
        ("k=2.", 2.0),
        ("k=False", False),
        ("k={a: 0123, b: [12:30, true, 1.5, null, ' #']}", {"a": "0123", "b": ["12:30", True, 1.5, None, " #"]}),
    ],
)
def test_a_text_on_the_command_line_is_not_changed_by_yaml(text: str, value: Any) -> None:
    found = load_conf(overrides=[text])["k"]
    assert (found, type(found)) == (value, type(value))


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=12))
def test_what_is_not_a_number_or_a_word_of_yaml_stays_as_it_is(text: str) -> None:
    written = f"x{text}"
    assert load_conf(overrides=[f"k={written}"])["k"] == written


def test_a_whole_number_may_be_written_as_in_storm() -> None:
    conf = load_conf({"topology.message.timeout.secs": 45.0})
    assert (conf["topology.message.timeout.secs"], type(conf["topology.message.timeout.secs"])) == (45, int)
    with pytest.raises(ConfigError):
        load_conf({"topology.message.timeout.secs": 45.5})


@pytest.mark.parametrize(
    ("given", "overrides", "directory", "expected"),
    [
        (
            {"directory": "d", "jedisPoolConfig": {"host": "store", "password": "s3cret"}},
            [".jedisPoolConfig.port=6380", ".jedisPoolConfig.tls.ca=c"],
            "d",
            RedisSettings("store", 6380, password=Secret("s3cret"), tls=TlsSettings(ca="c")),
        ),
        ('{"jedisPoolConfig": {"host": "store"}}', [".jedisPoolConfig.port=1"], None, RedisSettings("store", 1)),
        ({"jedisPoolConfig": {"host": "store"}}, ['={"jedisPoolConfig": {"port": 1}}'], None, RedisSettings(port=1)),
    ],
    ids=["inner keys", "over a JSON string", "as a whole"],
)
def test_overrides_change_or_replace_the_providers_configuration_and_keep_the_rest_and_what_was_given(
    given: Any, overrides: list[str], directory: str | None, expected: RedisSettings
) -> None:
    before = copy.deepcopy(given)
    provider = load_conf({CONFIG: given}, overrides=[CONFIG + each for each in overrides]).settings.provider
    assert (provider.directory, provider.redis) == (directory, expected)
    assert given == before


def test_an_override_may_name_the_variable_that_holds_a_password_whatever_the_variable_is_called(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("STORE_PASSWORD", "from the environment")
    conf = load_conf(overrides=[f"{CONFIG}.jedisPoolConfig.passwordEnv=STORE_PASSWORD"])
    assert conf.settings.provider.redis.password == Secret("from the environment")


def test_loading_or_pickling_a_configuration_keeps_it_and_its_password() -> None:
    conf = load_conf({CONFIG: {"jedisPoolConfig": {"password": "s3cret"}}, "own": 1})
    for again in (load_conf(conf), pickle.loads(pickle.dumps(conf))):  # noqa: S301 - our own bytes
        assert (dict(again), again.settings) == (dict(conf), conf.settings)
    changed = load_conf(conf, overrides=[f"{CONFIG}.jedisPoolConfig.port=1", "own=2"])
    assert changed.settings.provider.redis == RedisSettings(port=1, password=Secret("s3cret"))
    assert changed["own"] == 2


def test_configuration_cannot_be_changed_through_what_was_given() -> None:
    given: dict[str, Any] = {"own": 1, CONFIG: {"directory": "d"}}
    conf = load_conf(given)
    given["own"] = 2
    given[CONFIG]["directory"] = "e"
    assert conf["own"] == 1
    assert load_conf(conf).settings.provider.directory == "d"


@pytest.mark.parametrize("text", ["from a file", "from a file\n", "from a file\r\n"])
def test_password_comes_from_a_file_without_its_last_line_end(tmp_path: Path, text: str) -> None:
    file = tmp_path / "password"
    file.write_bytes(text.encode())
    assert redis(passwordFile=str(file)).password == Secret("from a file")


def test_an_empty_password_means_none_a_secret_is_one_and_tls_needs_no_files() -> None:
    assert redis(password="") == RedisSettings(password=None)
    assert redis(password=Secret("s3cret")) == RedisSettings(password=Secret("s3cret"))
    assert redis(tls={}) == RedisSettings(tls=TlsSettings())


@pytest.mark.parametrize(
    "override",
    [
        "my.api.token=canary-1",
        "my.database=postgresql://user:canary-1@db/words",
        "my.login={user: me, secret: canary-1}",
        "my.list=[{apiKey: canary-1}]",
        "storm.zookeeper.auth.payload=canary-1",
        "topology.state.provider.config.api_key=canary-1",
    ],
)
def test_a_secret_on_the_command_line_is_refused_whatever_its_key(override: str) -> None:
    with pytest.raises(ConfigError) as refused:
        load_conf(overrides=[override])
    assert refused.value.key == override.partition("=")[0]
    assert "canary" not in str(refused.value)


@pytest.mark.parametrize(
    "override",
    ["my.tokens.per.second=5", "my.tokenEnv=MINE", "my.url=https://user@example.com/", "topology.ui.tokenFile=/run/t"],
)
def test_what_is_no_secret_may_be_on_the_command_line(override: str) -> None:
    assert override.partition("=")[0] in load_conf(overrides=[override])
