"""The waves of a streaming query and of a pump beside it, when the query fails."""

import threading
from typing import Any
from unittest.mock import Mock

import pytest

from anchorbolt.engine.driver.pump import MixedWaves, Pump
from anchorbolt.errors import WaveFailed

NEVER_S = 1_000_000  # no test waits until messages time out


def pending_spouts() -> Mock:
    """Return spouts with a message that nobody settles any more."""
    spouts = Mock(is_waiting=False, is_settled=False, is_drained=True, is_idle=False, changed=threading.Condition())
    spouts.rich.close.return_value = []
    spouts.rich.unconfirmed.return_value = ()
    return spouts


def waves(query: Mock, spouts: Mock) -> MixedWaves:
    return MixedWaves(query, Pump(Mock(settings=Mock(message_timeout_secs=NEVER_S)), spouts))


def test_the_error_of_the_query_does_not_wait_until_messages_time_out() -> None:
    failure, spouts = WaveFailed("gone", txid=1), pending_spouts()
    mixed = waves(Mock(wait=Mock(return_value=failure)), spouts)
    mixed.start(Mock(), Mock(), until_empty=False)
    ended: list[Any] = []
    waits = threading.Thread(target=lambda: ended.append(mixed.wait()), daemon=True)
    waits.start()
    waits.join(30)
    assert ended == [failure]
    spouts.rich.close.assert_called()


def test_the_spouts_are_closed_if_the_query_cannot_start() -> None:
    spouts = pending_spouts()
    mixed = waves(Mock(start=Mock(side_effect=WaveFailed("refused", txid=-1))), spouts)
    with pytest.raises(WaveFailed):
        mixed.start(Mock(), Mock(), until_empty=False)
    spouts.rich.close.assert_called()
