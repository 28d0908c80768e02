"""The defaults are the seeds'; the profile of the reference is one table (agentchat wire 20)."""

import json
from dataclasses import fields
from pathlib import Path

import pytest

from moothall.settings import PROFILES, Settings, load
from moothall.settings.limits import Rate


def test_the_defaults_are_the_seeds() -> None:
    """Seed 001; seed 003, configuration; issue: all of them on."""
    settings = load({}, {}).settings
    assert settings == Settings()
    assert (settings.port, settings.data_dir) == (6667, Path(".agentchat"))
    assert settings.host == "127.0.0.1"
    assert settings.id_length == 8
    assert settings.default_channels == ("#general", "#agents", "#discovery")
    assert settings.buffer_size == 20
    assert settings.max_frame == 256 * 1024
    assert settings.challenge_timeout == 30
    assert settings.rate_pre_auth == Rate(10, 10)
    assert settings.rate_post_auth == Rate(60, 10)
    assert settings.rate_message == Rate(1, 1)
    assert settings.rate_chunk == Rate(10, 1)
    assert settings.max_connections_per_ip == 200
    assert (settings.floor, settings.floor_ttl) == (True, 45)
    assert (settings.idle_prompts, settings.idle_timeout) == (True, 300)
    assert (settings.court_reveal_timeout, settings.court_response_timeout) == (300, 1800)
    assert (settings.court_evidence_period, settings.court_vote_period) == (3600, 3600)
    assert (settings.court_arbiter_rating, settings.court_arbiter_transactions) == (1200, 10)
    assert not settings.allowlist
    assert not settings.captcha
    assert not settings.moderation
    assert not settings.no_limits
    assert settings.admin_key == settings.access_key == ""


def test_there_are_two_profiles_and_the_seeds_change_nothing() -> None:
    assert list(PROFILES) == ["seeds", "agentchat-0.36"]
    assert PROFILES["seeds"] == {}


def test_a_profile_sets_settings_that_exist_to_values_that_differ() -> None:
    defaults = Settings()
    for name, value in PROFILES["agentchat-0.36"].items():
        assert name in {entry.name for entry in fields(Settings)}
        assert type(value) is type(getattr(defaults, name))
        assert value != getattr(defaults, name)


@pytest.mark.parametrize(
    ("row", "name", "value"),
    [
        (1, "id_length", 16),
        (2, "verified_means", "grant"),
        (6, "challenge_timeout", 60.0),
        (0, "subprotocols", ("*",)),
        (8, "takeover_delay", 5.0),
        (11, "max_content", 2 * 1024 * 1024),
        (12, "answer_malformed", True),
        (13, "flood_closes", True),
        (14, "auto_join", True),
        (15, "replay_first", False),
        (16, "creator_as_text", True),
        (17, "service_lines", True),
        (18, "echo", True),
        (21, "not_member_code", "NOT_INVITED"),
        (22, "verified_channels", ("#ops",)),
        (24, "buffer_size", 200),
        (25, "idle_timeout", 3600.0),
        (37, "court_reveal_timeout", 600.0),
        (38, "court_absent", ("away", "offline")),
        (39, "court_evidence_early", False),
        (40, "court_max_panels", 3),
        (56, "allowlist_strict", False),
    ],
)
def test_the_rows_of_this_floor(row: int, name: str, value: object) -> None:
    chosen = load({"profile": "agentchat-0.36"}, {})
    assert getattr(chosen.settings, name) == value
    assert chosen.origins[name] == "profile agentchat-0.36"


@pytest.mark.parametrize(
    ("row", "name"),
    [
        (20, "rate_message"),
        (23, "private_channels"),
        (46, "rate_chunk"),
        (35, "floor_ttl"),
    ],
)
def test_rows_that_are_not_taken(row: int, name: str) -> None:
    assert load({"profile": "agentchat-0.36"}, {}).origins[name] == "default"


@pytest.mark.parametrize("profile", list(PROFILES))
def test_the_longest_message_fits_a_frame_and_an_outbox_however_it_is_spelled(profile: str) -> None:
    """Row 11. JSON may write each UTF-16 code unit as six bytes."""
    settings = load({"profile": profile}, {}).settings
    fields = {
        "to": "#" + "c" * 31,
        "sig": "\u00e9" * 1024,
        "in_reply_to": "\u00e9" * 256,
        "ref": "\u00e9" * 256,
    }
    spelled = json.dumps({"type": "MSG", **fields, "content": "\u00e9" * settings.max_content})
    assert len(spelled) <= settings.max_frame
    assert settings.max_frame < settings.outbox_limit


def test_a_single_setting_of_a_profile_can_be_overruled() -> None:
    settings = load({"profile": "agentchat-0.36", "id_length": "8"}, {}).settings
    assert (settings.id_length, settings.echo) == (8, True)
