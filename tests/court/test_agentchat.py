"""The court on the agentchat wire. What its messages say is in the tests of the decisions that tell them."""

from typing import get_args

from moothall.court import agentchat, commands, news
from moothall.market import commands as market_commands
from moothall.market.outcome import News
from moothall.market.signed import SignedCommand
from moothall.wire.agentchat.signing import TEXTS, SignedMessage
from tests.support.orders import READERS


def test_there_is_a_message_for_all_news() -> None:
    kinds = {each for each in vars(news).values() if isinstance(each, type) and issubclass(each, News)}
    assert set(agentchat._MESSAGES) == {each for each in kinds if each.__module__ == news.__name__} - {
        news.CaseNews
    }


def test_every_signed_message_has_a_text_and_is_a_command() -> None:
    """DISPUTE_REVEAL and all others of market and court."""
    assert set(TEXTS) == set(READERS) == set(get_args(SignedMessage))


def test_only_a_decline_may_come_unsigned() -> None:
    rooms = (*vars(commands).values(), *vars(market_commands).values())
    orders = {each for each in rooms if isinstance(each, type) and issubclass(each, SignedCommand)}
    assert {each for each in orders if each.may_be_unsigned} == {commands.DeclineSeat}
