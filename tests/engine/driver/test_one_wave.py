"""The lock that is held during a wave."""

import pytest

from anchorbolt.engine.driver.one_wave import OneWave


def test_who_is_interrupted_while_waiting_does_not_keep_the_lock_from_others(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    one_wave = OneWave()
    with one_wave, monkeypatch.context() as patched:
        patched.setattr(one_wave._changed, "wait_for", interrupted)
        with pytest.raises(KeyboardInterrupt):
            one_wave.acquire()
    assert one_wave.acquire(timeout=0)
