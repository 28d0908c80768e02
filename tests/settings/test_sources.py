"""Where settings come from, what wins, and what an operator is told when something is wrong."""

from pathlib import Path
from typing import Any, get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moothall.errors import SettingsError
from moothall.settings import Settings, load
from moothall.settings.fields import described
from moothall.settings.limits import Rate
from moothall.settings.sources import check_name, parse

NOTHING: dict[str, str] = {}


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No moothall.toml but the test's own is read."""
    monkeypatch.chdir(tmp_path)


def toml(text: str, name: str = "moothall.toml") -> Path:
    path = Path(name)
    path.write_text(text)
    return path


def complaint(
    flags: dict[str, Any] | None = None,
    environment: dict[str, str] | None = None,
    config: Path | None = None,
) -> str:
    """What the operator reads: one line."""
    with pytest.raises(SettingsError) as refused:
        load(flags, environment or NOTHING, config)
    text = str(refused.value)
    assert "\n" not in text
    return text


# -- precedence ----------------------------------------------------------------------------------------


def test_the_first_of_flag_environment_known_name_file_profile_default_wins() -> None:
    flags = {"floor_ttl": "1"}
    own = {"MOOTHALL_FLOOR_TTL": "2"}
    known = {"AGENTCHAT_RESPOND_TTL_MS": "3000"}
    older = {"AGENTCHAT_CLAIM_TTL_MS": "4000"}
    toml("floor_ttl = 5")
    expected = [
        (load(flags, {**own, **known, **older}), 1, "flag"),
        (load({}, {**own, **known, **older}), 2, "MOOTHALL_FLOOR_TTL"),
        (load({}, {**known, **older}), 3, "AGENTCHAT_RESPOND_TTL_MS"),
        (load({}, older), 4, "AGENTCHAT_CLAIM_TTL_MS"),
        (load({}, NOTHING), 5, "moothall.toml"),
    ]
    for chosen, value, origin in expected:
        assert (chosen.settings.floor_ttl, chosen.origins["floor_ttl"]) == (value, origin)
    Path("moothall.toml").unlink()
    chosen = load({}, NOTHING)
    assert (chosen.settings.floor_ttl, chosen.origins["floor_ttl"]) == (45, "default")


def test_a_profile_is_weaker_than_a_file_and_stronger_than_the_default() -> None:
    chosen = load({"profile": "agentchat-0.36"}, NOTHING)
    assert (chosen.settings.buffer_size, chosen.origins["buffer_size"]) == (200, "profile agentchat-0.36")
    toml("buffer_size = 7")
    chosen = load({"profile": "agentchat-0.36"}, NOTHING)
    assert (chosen.settings.buffer_size, chosen.origins["buffer_size"]) == (7, "moothall.toml")


def test_a_flag_that_was_not_given_does_not_count() -> None:
    chosen = load({"port": None}, {"MOOTHALL_PORT": "7000"})
    assert (chosen.settings.port, chosen.origins["port"]) == (7000, "MOOTHALL_PORT")


def test_an_empty_variable_does_not_count() -> None:
    chosen = load({}, {"MOOTHALL_PORT": "", "MOOTHALL_PROFILE": ""})
    assert (chosen.settings.port, chosen.origins["port"]) == (6667, "default")
    assert chosen.settings.profile == "seeds"


@pytest.mark.parametrize(
    ("flags", "environment", "file", "profile", "origin"),
    [
        ({"profile": "seeds"}, {"MOOTHALL_PROFILE": "agentchat-0.36"}, "agentchat-0.36", "seeds", "flag"),
        ({}, {"MOOTHALL_PROFILE": "agentchat-0.36"}, "seeds", "agentchat-0.36", "MOOTHALL_PROFILE"),
        ({}, {}, "agentchat-0.36", "agentchat-0.36", "moothall.toml"),
        ({}, {}, None, "seeds", "default"),
    ],
)
def test_the_profile_is_chosen_in_the_same_order(
    flags: dict[str, str], environment: dict[str, str], file: str | None, profile: str, origin: str
) -> None:
    if file is not None:
        toml(f'profile = "{file}"')
    chosen = load(flags, environment)
    assert (chosen.settings.profile, chosen.origins["profile"]) == (profile, origin)


def test_every_setting_has_an_origin_and_a_help() -> None:
    chosen = load({}, NOTHING)
    assert chosen.origins.keys() == get_type_hints(Settings).keys()
    assert chosen.settings == Settings()
    assert all(entry.metadata["help"] for entry in described())


def test_the_environment_is_the_processs_own_unless_one_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOOTHALL_PORT", "7001")
    assert load().settings.port == 7001
    assert load({}, NOTHING).settings.port == 6667


def test_variables_that_name_no_setting_are_told() -> None:
    environment = {
        "MOOTHALL_PROT": "1",
        "MOOTHALL_PORT": "2",
        "MOOTHALL_CONFIG": str(toml("")),
        "OTHER": "3",
    }
    assert load({}, environment).ignored == ("MOOTHALL_PROT",)


def test_variables_of_the_reference_that_do_nothing_here_are_told_in_its_profile() -> None:
    environment = {"AUDIT_LOG": "/var/log/audit.jsonl", "LOG_MESSAGES": "true", "LURK_DISABLED": "true"}
    assert load({}, environment).ignored == ()
    profile = {"profile": "agentchat-0.36"}
    assert load(profile, environment).ignored == ("AUDIT_LOG", "LOG_MESSAGES")
    assert load(profile, {"AUDIT_LOG": "false", "LOG_MESSAGES": "0"}).ignored == ()


# -- the seeds' and the reference's names --------------------------------------------------------------


@pytest.mark.parametrize(
    ("variable", "text", "name", "value"),
    [
        ("AGENTCHAT_RESPOND_TTL_MS", "1500", "floor_ttl", 1.5),
        ("AGENTCHAT_CLAIM_TTL_MS", "45000", "floor_ttl", 45.0),
        ("AGENTCHAT_RESPOND_ENABLED", "false", "floor", False),
        ("AGENTCHAT_ADMIN_KEY", "k", "admin_key", "k"),
        ("ALLOWLIST_ADMIN_KEY", "k", "access_key", "k"),
        ("CAPTCHA_ENABLED", "true", "captcha", True),
        ("CAPTCHA_TIMEOUT_MS", "500", "captcha_timeout", 0.5),
        ("CAPTCHA_MAX_ATTEMPTS", "3", "captcha_attempts", 3),
        ("CAPTCHA_DIFFICULTY", "hard", "captcha_difficulty", "hard"),
        ("CAPTCHA_SKIP_ALLOWLISTED", "false", "captcha_skip_allowlisted", False),
        ("CAPTCHA_FAIL_ACTION", "shadow_lurk", "captcha_fail_action", "shadow_lurk"),
        ("AGENTCHAT_CB_MAX_DURATION_S", "60", "callback_max_delay", 60.0),
        ("AGENTCHAT_CB_MAX_PER_AGENT", "5", "callback_max_pending", 5),
        ("AGENTCHAT_CB_MAX_PAYLOAD", "10", "callback_max_payload", 10),
    ],
)
def test_names_that_mean_the_same_everywhere_always_count(
    variable: str, text: str, name: str, value: object
) -> None:
    chosen = load({}, {variable: text})
    assert (getattr(chosen.settings, name), chosen.origins[name]) == (value, variable)


REFERENCE_NAMES: list[tuple[str, str, str, object]] = [
    ("HOST", "0.0.0.0", "host", "0.0.0.0"),  # noqa: S104  # what the reference binds to
    ("PORT", "7000", "port", 7000),
    ("DATA_DIR", "/srv/chat", "data_dir", Path("/srv/chat/.agentchat")),
    ("SERVER_NAME", "hall", "server_name", "hall"),
    ("LOG_LEVEL", "warn", "log_level", "warning"),
    ("LOG_LEVEL", "warning", "log_level", "warning"),
    ("LOG_LEVEL", "debug", "log_level", "debug"),
    ("LOG_LEVEL", "INFO", "log_level", "info"),
    ("LOG_LEVEL", "WARN", "log_level", "warning"),
    ("MAX_CONNECTIONS_PER_IP", "3", "max_connections_per_ip", 3),
    ("ALLOWLIST_ENABLED", "true", "allowlist", True),
    ("ALLOWLIST_STRICT", "true", "allowlist_strict", True),
    ("GENESIS_AGENT_ID", "abc", "genesis_agent_id", "abc"),
    ("CHALLENGE_TIMEOUT_MS", "1000", "challenge_timeout", 1.0),
    ("MESSAGE_BUFFER_SIZE", "5", "buffer_size", 5),
    ("PRIVATE_CHANNELS_ENABLED", "false", "private_channels", False),
    ("IDLE_PROMPTS", "false", "idle_prompts", False),
    ("IDLE_TIMEOUT_MS", "60000", "idle_timeout", 60.0),
    ("MOTD", "hello", "motd", "hello"),
    ("RATE_LIMIT_MS", "250", "rate_message", Rate(1, 0.25)),
]


@pytest.mark.parametrize(("variable", "text", "name", "value"), REFERENCE_NAMES)
def test_names_of_the_reference_count_in_its_profile_only(
    variable: str, text: str, name: str, value: object
) -> None:
    """Agentchat wire 17.2. PORT and its like mean something else on most machines."""
    chosen = load({"profile": "agentchat-0.36"}, {variable: text})
    assert (getattr(chosen.settings, name), chosen.origins[name]) == (value, variable)
    assert load({}, {variable: text}).settings == Settings()


@pytest.mark.parametrize("variable", ["RATE_LIMIT_MS", "IDLE_TIMEOUT_MS", "CHALLENGE_TIMEOUT_MS"])
def test_a_time_of_zero_counts_as_not_set(variable: str) -> None:
    """Agentchat wire 17.2."""
    assert load({"profile": "agentchat-0.36"}, {variable: "0"}) == load(
        {"profile": "agentchat-0.36"}, NOTHING
    )


# -- the file ------------------------------------------------------------------------------------------


def test_a_file_may_hold_every_kind_of_setting() -> None:
    toml(
        """
        port = 7000
        data-dir = "/srv/hall"
        captcha = true
        id_length = 16
        challenge_timeout = 5
        rate_message = "5/2"
        rate_nick = 0
        default_channels = ["#a", "#b"]
        log_format = "json"
        motd = "hello"
        """
    )
    settings = load({}, NOTHING).settings
    assert (settings.port, settings.data_dir, settings.captcha) == (7000, Path("/srv/hall"), True)
    assert (settings.id_length, settings.challenge_timeout) == (16, 5.0)
    assert (settings.rate_message, settings.rate_nick) == (Rate(5, 2), Rate(0, 1))
    assert (settings.default_channels, settings.log_format, settings.motd) == (("#a", "#b"), "json", "hello")


def test_a_named_file_must_exist_and_the_usual_one_need_not() -> None:
    assert load({}, NOTHING).settings == Settings()
    assert complaint(config=Path("nowhere.toml")) == "nowhere.toml does not exist"
    assert complaint(environment={"MOOTHALL_CONFIG": "nowhere.toml"}) == "nowhere.toml does not exist"


def test_a_named_file_is_read_instead_of_the_usual_one() -> None:
    toml("port = 1")
    other = toml("port = 2", "other.toml")
    third = toml("port = 3", "third.toml")
    assert load({}, NOTHING, other).origins["port"] == "other.toml"
    assert load({}, {"MOOTHALL_CONFIG": "third.toml"}).settings.port == 3
    assert load({}, {"MOOTHALL_CONFIG": "third.toml"}, other).settings.port == 2
    assert third.exists()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("port = ", "moothall.toml is not TOML"),
        ("prot = 1", "there is no setting 'prot'; did you mean port?"),
        ("zzzzzz = 1", "there is no setting 'zzzzzz'; see `moothall config`"),
        ("port = 'x'", "port from moothall.toml: 'x' is not a number"),
        ("port = -1", "port from moothall.toml: -1 is not between 0 and 65535"),
        ("port = 70000", "port from moothall.toml: 70000 is not between 0 and 65535"),
        ("port = true", "port from moothall.toml: True has the wrong type"),
        ("port = [1]", "port from moothall.toml: [1] has the wrong type"),
        ("captcha = 1", "captcha from moothall.toml: 1 has the wrong type"),
        ("captcha = 'maybe'", "captcha from moothall.toml: 'maybe' is not true or false"),
        ("motd = ['a']", "motd from moothall.toml: ['a'] has the wrong type"),
        ("id_length = 9", "id_length from moothall.toml: '9' is not one of 8, 16"),
        ("log_format = 'xml'", "log_format from moothall.toml: 'xml' is not one of auto, console, json"),
        (
            "rate_message = 'fast'",
            "rate_message from moothall.toml: 'fast' is not COUNT/SECONDS, such as 60/10",
        ),
        ("challenge_timeout = inf", "challenge_timeout from moothall.toml: inf is not between 0 and"),
        ("challenge_timeout = nan", "challenge_timeout from moothall.toml: nan is not between 0 and"),
        ("default_channels = [1]", "default_channels from moothall.toml: must be a list of texts"),
        ("default_channels = ['general']", "default_channels from moothall.toml: 'general' is not a channel"),
        ("default_channels = ['#a', '#a']", "default_channels from moothall.toml: #a is there twice"),
        ("verified_channels = ['#general']", "verified_channels from moothall.toml: #general is there twice"),
        ("max_channels = 0", "max_channels from moothall.toml: must be at least 1"),
        ("profile = 'irc'", "profile from moothall.toml: 'irc' is not one of seeds, agentchat-0.36"),
        ("profile = ['seeds']", "profile from moothall.toml: ['seeds'] is not one of"),
        ("[rate_message]", "rate_message from moothall.toml: {} has the wrong type"),
    ],
)
def test_what_is_wrong_in_a_file_is_said_with_its_name(text: str, said: str) -> None:
    toml(text)
    assert said in complaint()


def test_a_file_that_cannot_be_read_is_said_so() -> None:
    Path("folder.toml").mkdir()
    assert complaint(config=Path("folder.toml")).startswith("folder.toml cannot be read: ")
    Path("latin.toml").write_bytes(b'motd = "\xe9"')
    assert complaint(config=Path("latin.toml")).startswith("latin.toml is not TOML: ")


@pytest.mark.parametrize("name", ["admin_key", "access_key", "admin-key", "webhook_secret"])
def test_secrets_are_not_taken_from_the_file(name: str) -> None:
    toml(f'{name} = "open sesame"')
    text = complaint()
    variable = f"MOOTHALL_{name.replace('-', '_').upper()}"
    assert variable in text
    assert "open sesame" not in text


def test_secrets_are_not_shown_when_settings_are_printed() -> None:
    environment = {"MOOTHALL_ADMIN_KEY": "open sesame", "MOOTHALL_ACCESS_KEY": "let me see"}
    shown = repr(load({}, environment))
    assert "open sesame" not in shown
    assert "let me see" not in shown


# -- flags and variables -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        ({"MOOTHALL_PORT": "x"}, "port from MOOTHALL_PORT: 'x' is not a number"),
        ({"MOOTHALL_PORT": "99999"}, "port from MOOTHALL_PORT: 99999 is not between 0 and 65535"),
        ({"MOOTHALL_CAPTCHA": "perhaps"}, "captcha from MOOTHALL_CAPTCHA: 'perhaps' is not true or false"),
        ({"MOOTHALL_PROFILE": "irc"}, "profile from MOOTHALL_PROFILE: 'irc' is not one of"),
        ({"CAPTCHA_TIMEOUT_MS": "soon"}, "captcha_timeout from CAPTCHA_TIMEOUT_MS: 'soon' is not a number"),
        (
            {"CAPTCHA_TIMEOUT_MS": "-5"},
            "captcha_timeout from CAPTCHA_TIMEOUT_MS: -0.005 is not between 0 and",
        ),
        (
            {"MOOTHALL_RATE_MESSAGE": "1/0"},
            "rate_message from MOOTHALL_RATE_MESSAGE: '1/0' is not COUNT/SECONDS",
        ),
        ({"MOOTHALL_MAX_FRAME": "0"}, "max_frame from MOOTHALL_MAX_FRAME: must be at least 1"),
        ({"MOOTHALL_CERT": "c.pem"}, "TLS needs both --cert and --key"),
    ],
)
def test_what_is_wrong_in_a_variable_is_said_with_its_name(environment: dict[str, str], said: str) -> None:
    assert said in complaint(environment=environment)


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ({"port": 99999}, "port from flag: 99999 is not between 0 and 65535"),
        ({"profile": "irc"}, "profile from flag: 'irc' is not one of seeds, agentchat-0.36"),
        ({"captcha": "perhaps"}, "captcha from flag: 'perhaps' is not true or false"),
        ({"key": Path("k.pem")}, "TLS needs both --cert and --key"),
        (
            {"subprotocols": "chat, two words"},
            "subprotocols from flag: 'two words' is not the name of a subprotocol",
        ),
        ({"max_content": 0}, "max_content from flag: 0 is not between 1 and 16777216"),
        ({"nodes": -1}, "nodes from flag: -1 is not between 1 and 64"),
        (
            {"max_content": 50_000},
            "can take 6 bytes; set max_frame to 316384 or more, or lower max_content",
        ),
        (
            {"profile": "agentchat-0.36", "max_frame": 2_097_152},
            "max_frame from flag: 2097152 bytes are too few for max_content = 2097152",
        ),
        (
            {"max_frame": 8_000_000},
            "4194304 bytes do not hold one frame of max_frame = 8000000; set outbox_limit to 8016384 or more",
        ),
    ],
)
def test_what_is_wrong_in_a_flag_is_said_too(flags: dict[str, Any], said: str) -> None:
    assert said in complaint(flags)


def test_flags_may_be_typed_already() -> None:
    flags = {"port": 7000, "data_dir": Path("/x"), "captcha": True, "rate_message": Rate(2, 1)}
    settings = load(flags, NOTHING).settings
    assert (settings.port, settings.data_dir, settings.captcha, settings.rate_message) == tuple(
        flags.values()
    )


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("captcha", "ON", True),
        ("captcha", "0", False),
        ("allowed_origins", "https://a.test, https://b.test,", ("https://a.test", "https://b.test")),
        ("allowed_origins", "", ()),
        ("cert", "", None),
        ("cert", "c.pem", Path("c.pem")),
        ("id_length", "16", 16),
        ("rate_message", "0", Rate(0, 1)),
        ("idle_timeout", "2.5", 2.5),
    ],
)
def test_texts_become_values(name: str, text: str, value: object) -> None:
    assert parse(name, text) == value


@given(st.sampled_from(sorted(get_type_hints(Settings))), st.text(max_size=20))
def test_any_text_is_a_value_or_a_reason(name: str, text: str) -> None:
    try:
        value = parse(name, text)
    except ValueError as error:
        reason = str(error)
    else:
        reason = "fine"
        # What was read from a text is not a text, unless a text was asked for.
        assert isinstance(value, str) is isinstance(parse(name, _default_text(name)), str)
    assert "\n" not in reason


def _default_text(name: str) -> str:
    default = getattr(Settings(), name)
    if isinstance(default, tuple) and not isinstance(default, Rate):
        return ",".join(default)
    return "" if default is None else str(default)


@given(st.sampled_from(sorted(get_type_hints(Settings))))
def test_every_default_can_be_written_and_read(name: str) -> None:
    assert parse(name, _default_text(name)) == getattr(Settings(), name)


def test_names_may_be_written_with_dashes_and_typos_get_a_hint() -> None:
    assert check_name("max-frame") == check_name(" max_frame ") == "max_frame"
    with pytest.raises(SettingsError, match="did you mean max_frame"):
        check_name("max_farme")


# -- what is given as a file ---------------------------------------------------------------------------


def key_file(mode: int, text: str = "open sesame\n") -> Path:
    path = Path("admin.key")
    path.write_text(text)
    path.chmod(mode)
    return path


def test_the_admin_key_can_come_from_a_file_of_its_own() -> None:
    chosen = load({"admin_key_file": key_file(0o600)}, NOTHING)
    assert (chosen.settings.admin_key, chosen.origins["admin_key"]) == ("open sesame", "admin.key")


def test_webhooks_are_signed_with_a_secret_from_a_file_or_the_environment() -> None:
    urls = {"webhooks": "https://example.org/a, http://127.0.0.1:8080/"}
    assert "MOOTHALL_WEBHOOK_SECRET" in complaint(urls)
    chosen = load({**urls, "webhook_secret_file": key_file(0o600)}, NOTHING)
    assert chosen.settings.webhooks == ("https://example.org/a", "http://127.0.0.1:8080/")
    assert (chosen.settings.webhook_secret, chosen.origins["webhook_secret"]) == ("open sesame", "admin.key")
    assert "open sesame" not in repr(chosen)
    secret = {"MOOTHALL_WEBHOOK_SECRET": "k"}
    assert "twice" in complaint({"webhooks": "https://example.org,https://example.org"}, secret)
    assert "more than 0" in complaint({"webhook_timeout": "0"})


def test_a_variable_wins_over_the_key_file() -> None:
    chosen = load({"admin_key_file": Path("nowhere")}, {"MOOTHALL_ADMIN_KEY": "k"})
    assert (chosen.settings.admin_key, chosen.origins["admin_key"]) == ("k", "MOOTHALL_ADMIN_KEY")


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o601, 0o666])
def test_a_key_file_that_others_can_touch_is_refused_with_the_cure(mode: int) -> None:
    text = complaint({"admin_key_file": key_file(mode)})
    assert "chmod 600 admin.key" in text
    assert "open sesame" not in text


def test_a_key_file_must_exist_and_hold_something() -> None:
    assert complaint({"admin_key_file": Path("nowhere")}).startswith("nowhere cannot be read: ")
    assert complaint({"admin_key_file": key_file(0o600, " \n")}) == "admin.key is empty"
    Path("admin.key").write_bytes(b"\xff")
    assert complaint({"admin_key_file": Path("admin.key")}) == "admin.key is not UTF-8 text"


def test_the_motd_can_come_from_a_file() -> None:
    Path("motd.txt").write_text("  be kind\nand brief\n")
    chosen = load({"motd_file": "motd.txt"}, NOTHING)
    assert (chosen.settings.motd, chosen.origins["motd"]) == ("be kind\nand brief", "motd.txt")
    assert load({"motd_file": "motd.txt", "motd": "hello"}, NOTHING).settings.motd == "hello"
    assert complaint({"motd_file": "nowhere"}).startswith("nowhere cannot be read: ")


def test_nothing_is_written_by_reading_settings() -> None:
    load({}, NOTHING)
    assert list(Path().iterdir()) == []


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("trusted_proxies", "10.0.0.1/8", "neither an IP address nor a network"),
        ("trusted_proxies", "127.0.0.1, proxy.example.org", "neither an IP address nor a network"),
        ("allowed_origins", "hall.example.org", "is not an origin"),
        ("allowed_origins", "https://hall.example.org/", "is not an origin"),
        ("allowed_origins", "https://Hall.example.org", "is not an origin"),
        ("allowed_origins", "https://hall.example.org:x", "is not an origin"),
        ("court_absent", "gone", "is not one of online, away"),
        ("court_arbiters_approved", "true", "no approved keys without allowlist"),
        ("court_arbiter_counterparties", "401", "not between 0 and 400"),
        ("loopback_factor", "0", "not between 1 and 1000000"),
        ("max_known_keys", "0", "not between 1 and 100000000"),
        ("max_known_keys", "100000001", "not between 1 and 100000000"),
        ("address_frames", "99999999999999999999/1", "is not between 0 and"),
        ("rating_gain_limit", "100/1e20", "is not between 0 and"),
        ("challenge_timeout", "0", "must be more than 0"),
        ("captcha_timeout", "0", "must be more than 0"),
        ("peer_timeout", "0", "must be more than 0"),
        ("buffer_size", "99999999999999999999", "is not between 0 and"),
        ("court_vote_period", "1e20", "is not between 0 and"),
    ],
)
def test_a_value_that_could_never_do_anything_is_refused(name: str, text: str, words: str) -> None:
    said = complaint({name: text})
    assert said.startswith(f"{name} from flag: ")
    assert words in said


def test_addresses_as_peers_and_browsers_spell_them_are_taken() -> None:
    settings = load(
        {
            "trusted_proxies": "10.0.0.5,::1,10.1.0.0/16",
            "allowed_origins": "https://hall.example.org:8443,null,*",
        },
        NOTHING,
    ).settings
    assert settings.trusted_proxies == ("10.0.0.5", "::1", "10.1.0.0/16")
    assert settings.allowed_origins == ("https://hall.example.org:8443", "null", "*")
