"""No password on the command line, however it is wrapped."""

from __future__ import annotations

import pytest

from anchorbolt.cli.passwords import refuse_passwords
from anchorbolt.errors import ConfigError

POOL = "topology.state.provider.config"


@pytest.mark.parametrize(
    "override",
    [
        f"{POOL}.jedisPoolConfig.password=hunter2",
        f"{POOL}.jedisPoolConfig.password =hunter2",
        f'{POOL}={{"jedisPoolConfig": {{"password": "hunter2"}}}}',
        f"{POOL}={{jedisPoolConfig: {{password: hunter2}}}}",
        f"{POOL}.jedisPoolConfig={{password : hunter2",
        f'{POOL}="{{\\"jedisPoolConfig\\": {{\\"password\\": \\"hunter2\\"}}}}"',
        "crm.dbPassword=hunter2",
    ],
)
def test_a_password_is_refused_without_being_shown(override: str) -> None:
    with pytest.raises(ConfigError) as caught:
        refuse_passwords(["topology.state.provider=redis", override])
    assert "hunter2" not in str(caught.value)
    assert "passwordEnv" in str(caught.value)
    assert caught.value.key == override.partition("=")[0].strip()


def test_what_only_names_where_a_password_is_passes() -> None:
    refuse_passwords(
        [
            f"{POOL}.jedisPoolConfig.passwordEnv=REDIS_PASSWORD",
            f"{POOL}={{jedisPoolConfig: {{passwordFile: secrets/redis}}}}",
            "job.title=lost password",
        ]
    )
