"""Secrets are removed from texts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anchorbolt.config import load_conf
from anchorbolt.config.masking import Masking, secrets_in
from anchorbolt.errors import ConfigError
from anchorbolt.ui.model.configuration import masked

SECRETS = st.lists(st.text("abc01-'\n\\", min_size=4, max_size=60), min_size=1, max_size=3)
OTHER = st.text("XYZ ,:=\n", max_size=300)


@given(secrets=SECRETS, before=OTHER, after=OTHER)
def test_no_text_holds_a_secret(secrets: list[str], before: str, after: str) -> None:
    shown = Masking(secrets).without_secrets(f"{before}{after.join(secrets)}{after}")
    assert not [secret for secret in secrets if secret in shown.replace("***", "")]


@given(secrets=SECRETS, text=OTHER)
def test_a_text_without_secrets_stays_as_it_is(secrets: list[str], text: str) -> None:
    assert Masking(secrets).without_secrets(text) == text


def test_a_name_that_a_secret_begins_with_is_shown() -> None:
    names = {"spout": "words", "bolt": "count"}
    assert Masking(["words-password", "my-count"]).without_secrets(names) == names


def test_a_secret_of_several_lines_is_removed_line_by_line_and_as_repr_writes_it() -> None:
    key = "-----BEGIN KEY-----\nMIIB'canary\n-----END KEY-----"
    assert Masking([key]).without_secrets(["line MIIB'canary", f"conf {[key]!r}"]) == ["line ***", 'conf ["***"]']


@pytest.mark.parametrize(
    "key",
    [
        *("client.secretKey", "service.secret.key", "my.passwords.a", "my.token.value", "my.password.prod", "secrets"),
        *("my.private_key_pem", "authorization", "X-Api-Key", "API_TOKENS", "my.password.superuser", "PGPASSWORD"),
        *("db.pass", "auth"),
    ],
)
def test_a_value_is_a_secret_if_a_word_of_its_key_says_so(key: str) -> None:
    assert list(secrets_in({key: "canary-1"})) == ["canary-1"]
    assert list(secrets_in({key: ["canary-1", {"a": "canary-2"}]})) == ["canary-1", "canary-2"]
    with pytest.raises(ConfigError, match="a password or another secret"):
        load_conf(overrides=[f"{key}=canary-1"])


@pytest.mark.parametrize(
    "key",
    [
        *("my.tokenizer", "TOKENIZER", "secretary", "author", "bypass.mode", "passengers"),
        *("my.passwordEnv", "token.file", "tokens.path", "secret.location", "my.password.class", "my.tokenUrl"),
        *("credentials.username", "auth.type"),
    ],
)
def test_a_value_is_no_secret_if_a_key_only_resembles_such_a_word_or_says_what_else_it_holds(key: str) -> None:
    assert not list(secrets_in({key: "default"}))
    assert load_conf(overrides=[f"{key}=default"])[key] == "default"


def test_a_token_is_a_secret_with_and_without_the_scheme_before_it() -> None:
    assert list(secrets_in({"authorization": "Bearer canary-1"})) == ["Bearer canary-1", "canary-1"]


@pytest.mark.parametrize(
    "text",
    [
        "jdbc:postgresql://h/db?user=a&password=canary-1",
        "Server=h;Pwd=canary-1;Database=d",
        "https://h/?token=canary-1&x=1",
        "https://account.blob/?sv=1&sig=canary-1",
        "https://bucket/?X-Amz-Signature=canary-1",
        "DefaultEndpointsProtocol=https;AccountKey=canary-1;EndpointSuffix=e",
        'Module required username="u" password="canary-1";',
        '{"client_secret": "canary-1"}',
        "Authorization: Bearer canary-1",
        "https://user:canary-1@h/",
    ],
)
def test_a_secret_within_a_text_is_removed_from_all_texts_and_refused_on_a_command_line(text: str) -> None:
    conf = {"my.connection": text}
    assert list(secrets_in(conf)) == ["canary-1"]
    assert "canary" not in masked(text)
    assert Masking(secrets_in(conf)).without_secrets("no answer from canary-1") == "no answer from ***"
    with pytest.raises(ConfigError, match="a password or another secret"):
        load_conf(overrides=[f"my.connection='{text}'"])


@pytest.mark.parametrize("text", ["Module password='canary, 1;'", "https://h/?token=canary%2C%201%3B"])
def test_a_secret_within_a_text_is_read_as_its_client_reads_it(text: str) -> None:
    assert "canary, 1;" in list(secrets_in({"my.connection": text}))


@pytest.mark.parametrize("text", ["h/?design=default&tokenizer=default", "passwordFile=/run/default", "h/?token=false"])
def test_other_parts_of_a_text_are_no_secrets(text: str) -> None:
    assert not list(secrets_in({"my.connection": text}))
    assert masked(text) == text
