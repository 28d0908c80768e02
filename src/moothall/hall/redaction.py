"""Secrets that an agent pasted by mistake are taken out before other agents read them (agentchat wire 9.6).

Every chat message passes here and almost none holds a secret, so looking is cheap and hiding is thorough:

- Looking. Each shape needs one character that ordinary text seldom has, and a few letters around it. A gate
  asks for the character first, which is one memchr, and only then for the letters. Full patterns run only
  behind a gate that opened.
- Hiding. All suspects are searched in the original text and their finds are joined where they overlap, so
  that no part of a secret survives because another pattern took the rest, and no replacement is ever
  redacted again. The earliest shape in the table gives the name.

Every pattern takes time linear in the text, hostile text included: a quantifier is either bounded or possessive,
and two attempts never read the same long run. A prefix followed by `{n,}` fails within n characters or not at
all; the two shapes where that is not enough say what they do about it.
"""

import re
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

MIN_ENVIRONMENT_VALUE: Final = 8  # shorter values are words such as "enabled" (agentchat wire 9.6)


class Shape(NamedTuple):
    """What one kind of secret looks like. The secret is the pattern's last group, or all of it."""

    name: str
    pattern: re.Pattern[str]

    def spans(self, text: str) -> list[tuple[int, int]]:
        secret = self.pattern.groups
        return [match.span(secret) for match in self.pattern.finditer(text)]


def _shape(name: str, pattern: str, flags: re.RegexFlag = re.NOFLAG) -> Shape:
    return Shape(name, re.compile(pattern, flags | re.ASCII | re.VERBOSE))


# Where the wire facts give an exact length, this one is a minimum: the tail of a longer token is as secret.
_ANTHROPIC: Final = _shape("anthropic_api_key", r"sk-ant-[A-Za-z0-9_-]{20,}")
_OPENAI: Final = _shape(
    "openai_api_key",
    # Keys of projects and service accounts came later and have hyphens and underscores inside.
    r"sk-(?:[A-Za-z0-9]{20,} | (?:proj|svcacct|admin)-[A-Za-z0-9_-]{20,})",
)
_GITHUB: Final = _shape("github_pat", r"ghp_[A-Za-z0-9]{36,}")
_GITHUB_FINE: Final = _shape("github_pat_fine", r"github_pat_[A-Za-z0-9_]{22,}")
_GITHUB_OAUTH: Final = _shape("github_oauth", r"gho_[A-Za-z0-9]{36,}")
_AWS_ACCESS: Final = _shape("aws_access_key", r"AKIA[A-Z0-9]{16,}")
_AWS_SECRET: Final = _shape(
    "aws_secret_key",
    r"""aws_secret_(?:access_)?key  [\s"'`:=,>]{1,10}+  [A-Za-z0-9/+]{40,}""",
    re.IGNORECASE,
)
_SLACK: Final = _shape("slack_token", r"xox[bpaors]-[A-Za-z0-9-]{10,}")
_STRIPE: Final = _shape("stripe_key", r"[sr]k_(?:live|test)_[A-Za-z0-9]{20,}")
_GOOGLE: Final = _shape("google_api_key", r"AIza[A-Za-z0-9_-]{35,}")
_JWT: Final = _shape(
    "jwt",
    # The header has no length, and "eyJeyJeyJ..." would be read once per "eyJ". So an attempt begins only
    # where a run of token characters begins, skips to the first "eyJ" that has ten more, and never goes back:
    # a later "eyJ" of the same run is followed by the same rest, and would fail as well.
    r"""(?<![A-Za-z0-9_-])  (?:(?!eyJ[A-Za-z0-9_-]{10})[A-Za-z0-9_-])*+
        (eyJ[A-Za-z0-9_-]{10,}+  \.eyJ[A-Za-z0-9_-]{10,}+  \.[A-Za-z0-9_-]{10,}+)""",
)
_GENERIC: Final = _shape(
    "generic_secret",
    # The value has no length either, but it holds no quote and is entered only through one, so no two
    # attempts read the same value.
    r"""(?:api_?key|secret|token|password|credential|auth)s?  [\s"'`_-]{0,8}+  [:=]  \s{0,8}+
        ["'`]  [^\s"'`]{16,}+  ["'`]""",
    re.IGNORECASE,
)

SHAPES: Final = (
    _ANTHROPIC,
    _OPENAI,
    _GITHUB,
    _GITHUB_FINE,
    _GITHUB_OAUTH,
    _AWS_ACCESS,
    _AWS_SECRET,
    _SLACK,
    _STRIPE,
    _GOOGLE,
    _JWT,
    _GENERIC,
)


def _around(pattern: str) -> Callable[[str], object]:
    """A search that begins with one literal: it jumps from one to the next, and looks around there."""
    return re.compile(pattern, re.ASCII).search


# The gates: no shape can be in a text where its gate finds nothing. Most dashes and underscores get no
# further than the first set. Blanks are spelled out because a set is one lookup and a category a call.
_AT_DASH: Final = _around(r"-(?<=[sx][kbpaors]-)(?:(?<=sk-)|(?<=xox[bpaors]-))")
_AT_UNDERSCORE: Final = _around(
    r"_(?<=[poktsS]_)"
    r"(?:(?<=gh[po]_)|(?<=github_pat_)|(?<=[sr]k_)(?:live|test)_|(?<=(?i:aws)_)(?i:secret)_)"
)
_AFTER_COLON: Final = _around(r""":[ \t\n\r\f\v]{0,8}+["'`][^ \t\n\r\f\v"'`]{16}""")
_AFTER_EQUALS: Final = _around(r"""=[ \t\n\r\f\v]{0,8}+["'`][^ \t\n\r\f\v"'`]{16}""")


def _suspects(text: str) -> list[Shape]:
    """The shapes whose gate is open, in no particular order. Nearly always none."""
    suspects: list[Shape] = []
    if "-" in text and _AT_DASH(text):
        suspects += (_ANTHROPIC, _OPENAI, _SLACK)
    if "_" in text and _AT_UNDERSCORE(text):
        suspects += (_GITHUB, _GITHUB_FINE, _GITHUB_OAUTH, _AWS_SECRET, _STRIPE)
    if "K" in text and "AKIA" in text:
        suspects.append(_AWS_ACCESS)
    if "z" in text and "AIza" in text:
        suspects.append(_GOOGLE)
    if "J" in text and "eyJ" in text:
        suspects.append(_JWT)
    # Prose has colons. Only a value in quotes counts, and to look for a quote is several times as fast.
    if (":" in text or "=" in text) and ('"' in text or "'" in text or "`" in text):
        assigned = _AFTER_COLON(text) or _AFTER_EQUALS(text)
        if assigned and _names_a_secret(text):
            suspects.append(_GENERIC)
    return suspects


def _names_a_secret(text: str) -> bool:
    folded = text.lower()
    return (
        "secret" in folded
        or "token" in folded
        or "password" in folded
        or "credential" in folded
        or "auth" in folded
        or "api_key" in folded
        or "apikey" in folded
    )


_SECRET_VARIABLE: Final = re.compile(
    r"(?:.*_(?:KEY|TOKEN|SECRET|PASSWORD|CREDENTIAL|AUTH)|API_KEY|SECRET|TOKEN|PASSWORD|AUTH.*)",
    re.IGNORECASE | re.DOTALL,
)


class Redactor:
    """Knows the shapes of secrets, and by value those in the environment it was given."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._own: Final = _own_secrets(environment)
        self._order: Final = (*SHAPES, *(shape for _, shape in self._own))
        # The shapes that may be in a text. Nearly always none, and then there is nothing to redact.
        self.suspects: Final = self._all_suspects if self._own else _suspects

    def redact(self, text: str) -> tuple[str, tuple[str, ...]]:
        """The text without its secrets, the same object if it has none; and the name of each one hidden."""
        suspects = self.suspects(text)
        if not suspects:
            return text, ()
        return hide(text, [shape for shape in self._order if shape in suspects])

    def _all_suspects(self, text: str) -> list[Shape]:
        return _suspects(text) + [shape for value, shape in self._own if value in text]


def _own_secrets(environment: Mapping[str, str]) -> tuple[tuple[str, Shape], ...]:
    """Longest first, so that a secret that contains another one gives its own name."""
    names_by_value: dict[str, str] = {}
    for name, value in environment.items():
        if _is_secret(name, value):
            names_by_value.setdefault(value, name)
    return tuple(
        (value, Shape(f"env:{names_by_value[value]}", re.compile(re.escape(value))))
        for value in sorted(names_by_value, key=len, reverse=True)
    )


def _is_secret(name: str, value: str) -> bool:
    # A blank value would take the indentation out of every message.
    long_enough = len(value) >= MIN_ENVIRONMENT_VALUE and not value.isspace()
    return long_enough and _SECRET_VARIABLE.fullmatch(name) is not None


def hide(text: str, shapes: list[Shape]) -> tuple[str, tuple[str, ...]]:
    """Replace whatever one of the shapes covers by `[REDACTED:<name>]`; earlier shapes give the name."""
    spans = sorted(
        (start, end, rank) for rank, shape in enumerate(shapes) for start, end in shape.spans(text)
    )
    if not spans:
        return text, ()
    pieces: list[str] = []
    names: list[str] = []
    kept_from = 0
    for start, end, rank in _joined(spans):
        names.append(shapes[rank].name)
        pieces += (text[kept_from:start], f"[REDACTED:{shapes[rank].name}]")
        kept_from = end
    pieces.append(text[kept_from:])
    return "".join(pieces), tuple(names)


def _joined(spans: list[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
    """Sorted spans, those that overlap made one, with the lowest rank among them."""
    joined = spans[:1]
    for start, end, rank in spans[1:]:
        last_start, last_end, last_rank = joined[-1]
        if start < last_end:
            joined[-1] = (last_start, max(last_end, end), min(last_rank, rank))
        else:
            joined.append((start, end, rank))
    return joined
