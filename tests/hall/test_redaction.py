import re
from string import ascii_letters, ascii_uppercase, digits
from time import process_time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from moothall.hall.redaction import SHAPES, Redactor, hide

ALNUM = ascii_letters + digits
URL_SAFE = ALNUM + "_-"

ENVIRONMENT = {
    "AGENTCHAT_ADMIN_KEY": "hunter2-hunter2",
    "DB_PASSWORD": "correct horse battery",
    "HOME": "/home/somebody",
}

EXAMPLES = [
    ("anthropic_api_key", "sk-ant-" + "a1_-" * 5),
    ("openai_api_key", "sk-" + "aB3d" * 5),
    ("openai_api_key", "sk-proj-" + "aB3_" * 10),
    ("github_pat", "ghp_" + "a" * 36),
    ("github_pat_fine", "github_pat_" + "a_" * 11),
    ("github_oauth", "gho_" + "9" * 36),
    ("aws_access_key", "AKIAIOSFODNN7EXAMPLE"),
    ("aws_secret_key", "AWS_SECRET_ACCESS_KEY=" + "wJalrXUt/FEMI+K7MDENG" * 2),
    ("aws_secret_key", "aws_secret_key: '" + "a" * 40),
    ("slack_token", "xoxb-123-abc-456"),
    ("stripe_key", "sk_live_" + "a" * 20),
    ("stripe_key", "rk_test_" + "a" * 20),
    ("google_api_key", "AIza" + "a-_4567" * 5),
    ("jwt", "eyJhbGciOiJIUzI1.eyJzdWIiOiIxMjM0.SflKxwRJSMeK"),
    ("generic_secret", 'api_key="0123456789abcdef"'),
    ("generic_secret", "Password : 'correct-horse-battery'"),
    ("generic_secret", "credentials=`aaaaaaaaaaaaaaaa`"),
    ("generic_secret", 'auth"\t=\n"aaaaaaaaaaaaaaaa"'),
    ("generic_secret", 'APIKEY:"aaaaaaaaaaaaaaaa"'),
    ("env:AGENTCHAT_ADMIN_KEY", "hunter2-hunter2"),
    ("env:DB_PASSWORD", "correct horse battery"),
]

HARMLESS = [
    "",
    "a task-oriented well-known sk- prefix",
    "sk-" + "a" * 19,
    "sk-ant-" + "a" * 12,
    "ghp_" + "a" * 35,
    "akiaiosfodnn7example",
    "xoxz-1234567890",
    "sk_prod_" + "a" * 20,
    "eyJhbGciOiJIUzI1.eyJzdWIiOiIxMjM0",
    'token="too short"',
    'token="fifteen-letters"',
    "token=" + "a" * 40,
    'author: "somebody@example.org"',
    "/home/somebody",
]


def from_alphabet(alphabet: str, shortest: int) -> st.SearchStrategy[str]:
    return st.text(alphabet, min_size=shortest, max_size=shortest + 12)


def joined(*parts: str | st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.tuples(*(st.just(part) if isinstance(part, str) else part for part in parts)).map("".join)


def any_case(*words: str) -> st.SearchStrategy[str]:
    return st.sampled_from(words).flatmap(
        lambda word: st.tuples(*(st.sampled_from((c, c.upper())) for c in word)).map("".join)
    )


# Written from the wire facts and not from the patterns, so that one can be held against the other.
SECRETS: dict[str, st.SearchStrategy[str]] = {
    "anthropic_api_key": joined("sk-ant-", from_alphabet(URL_SAFE, 20)),
    "openai_api_key": joined("sk-", from_alphabet(ALNUM, 20)),
    "github_pat": joined("ghp_", from_alphabet(ALNUM, 36)),
    "github_pat_fine": joined("github_pat_", from_alphabet(ALNUM + "_", 22)),
    "github_oauth": joined("gho_", from_alphabet(ALNUM, 36)),
    "aws_access_key": joined("AKIA", from_alphabet(ascii_uppercase + digits, 16)),
    "aws_secret_key": joined(
        any_case("aws_secret_access_key", "aws_secret_key"),
        st.sampled_from(("=", ": ", '": "', " => '")),
        from_alphabet(ALNUM + "/+", 40),
    ),
    "slack_token": joined("xox", st.sampled_from("bpaors"), "-", from_alphabet(ALNUM + "-", 10)),
    "stripe_key": joined(
        st.sampled_from("sr"), "k_", st.sampled_from(("live_", "test_")), from_alphabet(ALNUM, 20)
    ),
    "google_api_key": joined("AIza", from_alphabet(URL_SAFE, 35)),
    "jwt": joined(
        "eyJ",
        from_alphabet(URL_SAFE, 10),
        ".eyJ",
        from_alphabet(URL_SAFE, 10),
        ".",
        from_alphabet(URL_SAFE, 10),
    ),
    "generic_secret": joined(
        any_case("api_key", "apikey", "secret", "token", "password", "credential", "auth"),
        st.sampled_from(("", " ", '"', "_", " \t")),
        st.sampled_from(":="),
        st.sampled_from(("", " ", "\n  ")),
        st.sampled_from("\"'`").flatmap(
            lambda quote: from_alphabet(ALNUM + "!$%/é", 16).map(lambda value: f"{quote}{value}{quote}")
        ),
    ),
}
ANY_SECRET = st.one_of(*SECRETS.values(), st.sampled_from(sorted(ENVIRONMENT.values())))
SCRAPS = st.sampled_from(
    (
        " ",
        "-",
        "_",
        ".",
        ":",
        "=",
        '"',
        "'",
        "\n",
        "sk-",
        "eyJ",
        "xoxb-",
        "token",
        "AWS_SECRET_KEY",
        "AKIA",
        "K",
        "é",
    )
)
TEXTS = st.lists(st.one_of(ANY_SECRET, SCRAPS, st.text(max_size=8)), max_size=8).map("".join)


@pytest.fixture(scope="module")
def redactor() -> Redactor:
    return Redactor(ENVIRONMENT)


@pytest.mark.parametrize(("name", "secret"), EXAMPLES)
def test_a_secret_is_replaced_by_its_name(redactor: Redactor, name: str, secret: str) -> None:
    assert redactor.redact(f"see {secret} there") == (f"see [REDACTED:{name}] there", (name,))


@pytest.mark.parametrize("text", HARMLESS)
def test_ordinary_text_comes_back_as_the_same_object(redactor: Redactor, text: str) -> None:
    redacted, names = redactor.redact(text)
    assert redacted is text
    assert names == ()


def test_every_shape_has_examples() -> None:
    assert [shape.name for shape in SHAPES] == list(SECRETS)


@pytest.mark.parametrize("name", SECRETS)
@given(data=st.data())
def test_nothing_of_a_secret_survives(name: str, data: st.DataObject) -> None:
    secret = data.draw(SECRETS[name])
    redacted, names = Redactor({}).redact(f"before {secret} after")
    assert redacted == f"before [REDACTED:{names[0]}] after"
    assert len(names) == 1


@given(TEXTS)
@example("token=\x1f'aaaaaaaaaaaaaaaaaaaa'")
@example('api\u212aey="aaaaaaaaaaaaaaaaaaaa"')
def test_the_gates_never_change_the_result(text: str) -> None:
    redactor = Redactor(ENVIRONMENT)
    assert redactor.redact(text) == hide(text, list(redactor._order))


@given(TEXTS, st.data())
def test_the_gates_never_change_the_result_for_damaged_secrets(text: str, data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(text)))
    damaged = text[:cut] + text[cut + 1 :]
    redactor = Redactor(ENVIRONMENT)
    assert redactor.redact(damaged) == hide(damaged, list(redactor._order))


@given(TEXTS)
def test_each_replacement_is_named_and_the_rest_is_untouched(text: str) -> None:
    redacted, names = Redactor(ENVIRONMENT).redact(text)
    kept: list[str] = []
    for name in names:
        before, replacement, redacted = redacted.partition(f"[REDACTED:{name}]")
        assert replacement
        kept.append(before)
    kept.append(redacted)
    assert re.fullmatch(".+".join(map(re.escape, kept)), text, re.DOTALL)


def test_several_secrets_are_named_in_the_order_of_the_text(redactor: Redactor) -> None:
    text = f"{'ghp_' + 'a' * 36}, then sk-ant-{'b' * 30}, then hunter2-hunter2"
    redacted, names = redactor.redact(text)
    assert redacted == (
        "[REDACTED:github_pat], then [REDACTED:anthropic_api_key], then [REDACTED:env:AGENTCHAT_ADMIN_KEY]"
    )
    assert names == ("github_pat", "anthropic_api_key", "env:AGENTCHAT_ADMIN_KEY")


def test_a_replacement_is_not_redacted_again() -> None:
    redactor = Redactor({"MY_KEY": "anthropic_api_key", "OTHER_KEY": "REDACTED:"})
    assert redactor.redact("sk-ant-" + "a" * 30) == ("[REDACTED:anthropic_api_key]", ("anthropic_api_key",))


def test_overlapping_secrets_are_hidden_together_under_the_first_name(redactor: Redactor) -> None:
    quoted = 'token="sk-ant-' + "a" * 20 + '!and-the-rest"'
    assert redactor.redact(quoted) == ("[REDACTED:anthropic_api_key]", ("anthropic_api_key",))


def test_a_secret_of_the_hall_is_hidden_whole_even_if_a_pattern_knows_only_its_beginning() -> None:
    value = "ghp_" + "a" * 36 + "/with-a-tail"
    assert Redactor({"DEPLOY_TOKEN": value}).redact(value) == ("[REDACTED:github_pat]", ("github_pat",))


def test_a_jwt_glued_to_other_characters_is_found() -> None:
    jwt = "eyJhbGciOiJIUzI1.eyJzdWIiOiIxMjM0.SflKxwRJSMeK"
    assert Redactor({}).redact(f"\\n{jwt}") == ("\\n[REDACTED:jwt]", ("jwt",))


@pytest.mark.parametrize(
    "name",
    [
        "OPENAI_KEY",
        "slack_token",
        "A_SECRET",
        "DB_PASSWORD",
        "X_CREDENTIAL",
        "X_AUTH",
        "API_KEY",
        "Secret",
        "token",
        "PASSWORD",
        "AUTHORIZATION",
        "auth",
    ],
)
def test_variables_with_such_names_hold_secrets(name: str) -> None:
    assert Redactor({name: "some value"}).redact("some values") == (
        f"[REDACTED:env:{name}]s",
        (f"env:{name}",),
    )


@pytest.mark.parametrize(
    "name", ["PATH", "KEY", "MY_KEYS", "SSH_AUTH_SOCK", "TOKENS", "MYPASSWORD", "CREDENTIAL"]
)
def test_variables_with_other_names_do_not(name: str) -> None:
    assert Redactor({name: "some value"}).redact("some value")[1] == ()


@pytest.mark.parametrize("value", ["", "7 chars", " " * 12])
def test_short_and_blank_values_are_no_secrets(value: str) -> None:
    assert Redactor({"MY_KEY": value}).redact(f"a{value}b")[1] == ()


def test_the_longest_value_gives_its_name_to_one_inside_it() -> None:
    redactor = Redactor({"SHORT_KEY": "12345678", "LONG_KEY": "0123456789"})
    assert redactor.redact("0123456789 12345678")[1] == ("env:LONG_KEY", "env:SHORT_KEY")


# 256 KB, the largest frame. Reading a run once per attempt would take minutes here.
LARGEST = 256 * 1024


@pytest.mark.parametrize(
    "unit",
    [
        "eyJ",
        "eyJaaaaaaaaaa.",
        "eyJaaaaaaaaaa.eyJaaaaaaaaaa",
        "sk-ant-",
        "sk-proj-",
        "sk-" + "a" * 19 + " ",
        "xoxb-",
        "github_pat_",
        "ghp_",
        "AKIA",
        "AIza",
        "aws_secret_key=========",
        "aws_secret_key ",
        "token=",
        'token="',
        'token="aaaaaaaaaaaaaaaa',
        "token        ",
        "token_-_-_-_-",
        '"',
        ":" + " " * 9,
    ],
)
def test_time_is_linear_in_whatever_is_sent(unit: str) -> None:
    text = unit * (LARGEST // len(unit))
    before = process_time()
    hide(text, list(SHAPES))
    hide('token="' + text, list(SHAPES))
    Redactor(ENVIRONMENT).redact(text)
    assert process_time() - before < 3
