"""WELCOME says which of our extensions a hall serves."""

from pathlib import Path
from typing import Any, get_args

import pytest

from moothall.hall.features import FEATURES, served
from moothall.settings import PROFILES, Settings
from moothall.wire.agentchat.client import ClientMessage, ListAgents
from moothall.wire.agentchat.requests import AnyClientMessage
from tests.support.world import World, assert_sent

WIRE = (Path(__file__).parents[2] / "docs" / "wire.md").read_text()


@pytest.mark.parametrize("profile", PROFILES)
def test_welcome_lists_what_is_served(profile: str) -> None:
    world = World(profile)
    guest = world.connect()
    world.identify(guest)
    features = assert_sent(guest, "WELCOME")["features"]
    assert features == list(served(world.settings))
    assert set(features) <= {feature.name for feature in FEATURES}
    assert ("keep" in features) is world.settings.keep


@pytest.mark.parametrize(
    ("settings", "missing"),
    [({}, set()), ({"floor": False}, {"release"}), ({"keep": False}, {"keep"})],
)
def test_what_is_turned_off_is_not_served(settings: dict[str, Any], missing: set[str]) -> None:
    names = {feature.name for feature in FEATURES}
    assert set(served(Settings(**settings))) == names - missing - {"gaps"}


def test_no_two_features_have_one_name() -> None:
    assert len({feature.name for feature in FEATURES}) == len(FEATURES)


@pytest.mark.parametrize("feature", FEATURES, ids=lambda feature: feature.name)
def test_every_feature_has_its_row_in_the_docs(feature: Any) -> None:
    assert f"| `{feature.name}` |" in WIRE


@pytest.mark.parametrize("message", get_args(AnyClientMessage), ids=lambda message: message.__name__)
def test_a_message_of_ours_names_a_feature(message: type[ClientMessage]) -> None:
    """Clients look there before they say that a server does not offer it."""
    is_ours = (message.__doc__ or "").startswith(
        "Ours:"
    ) and message is not ListAgents  # with a channel it is not
    assert is_ours is (message.feature is not None)
    assert message.feature is None or message.feature in {feature.name for feature in FEATURES}


def test_gaps_are_told_by_halls_of_several_nodes() -> None:
    assert "gaps" in served(Settings(bus=("nats://127.0.0.1",)))
