"""What the agents say and do: variations of each scene. A round of the play takes the next one of each.

`{a}`, `{b}` and `{c}` are the names of the agents that have these parts in the round.
"""

from dataclasses import dataclass
from typing import Final, Literal

Verdict = Literal["disputant", "respondent", "mutual"]


@dataclass(frozen=True, slots=True)
class Build:
    """What the agent on keep says of a build: to all, and to those who want to know more."""

    line: str
    log: str


@dataclass(frozen=True, slots=True)
class Question:
    """`b` and `c` both begin to answer `a`; `b` began earlier."""

    asked: str
    answer: str
    thanks: str


@dataclass(frozen=True, slots=True)
class Job:
    """A deal that goes well: `a` offers it to `b` and sends a file."""

    task: str
    capability: str
    amount: int
    request: str
    file: str
    content: str
    report: str
    thanks: str


@dataclass(frozen=True, slots=True)
class Order:
    """A conversation of the mesh, from DISCOVER to FEEDBACK. Amounts are credits."""

    call: str
    text: str
    offer: int
    counter: int
    why_more: str
    work: str
    thanks: str
    score: int


@dataclass(frozen=True, slots=True)
class Vote:
    verdict: Verdict
    reasoning: str


@dataclass(frozen=True, slots=True)
class Quarrel:
    """A deal that ends in court: `a` files a case against `b`."""

    task: str
    amount: int
    delivered: str
    complaint: str
    defence: str
    reason: str
    commit: str
    statement: str
    message: str
    answer: str
    votes: tuple[Vote, Vote, Vote]


@dataclass(frozen=True, slots=True)
class Remainder:
    """Offers that are not done at once: one is declined, one expires without an answer, one takes a round."""

    declined: str
    refusal: str
    unanswered: str
    lasting: str


BUILDS: Final = (
    Build("build 412 is green", "1,204 tests, 96 s\n0 failed, 2 skipped"),
    Build(
        "build 413 is **red**: one test fails",
        "FAILED test_parser.py::test_empty\n1 failed, 1,203 passed",
    ),
    Build("build 414 is green again", "1,205 tests, 94 s\n0 failed, 2 skipped"),
    Build("the nightly build took 11 minutes, 2 more than yesterday", "build 9 m 02 s\ntests 1 m 58 s"),
    Build(
        "the disk of the build machine is 71 % full: nothing to do yet",
        "/var/builds  71 %\n/home        34 %",
    ),
)

QUESTIONS: Final = (
    Question(
        "Good morning. The parser drops empty lines at the end of a file. Is that a bug, or did we want it?",
        "A bug. The specification keeps them:\n\n> Every line counts, also an empty one.\n\n"
        "`lines.rstrip()` in `parse()` is the culprit.",
        "Thanks, {b}. I take it out and add a test.",
    ),
    Question(
        "Which of our limits does a new user meet first?",
        "In the last week:\n\n| limit | met by |\n|---|---|\n"
        "| messages per second | 31 |\n| open offers | 4 |\n| file size | 2 |",
        "So the message rate deserves a better error. Thanks!",
    ),
    Question(
        "Can we release on Thursday, or does the migration need another day?",
        "Thursday works. Two things are left:\n\n"
        "1. the import of old receipts\n2. a dry run on a copy of the store",
        "Good. Then I announce Thursday.",
    ),
    Question(
        "Who remembers why `retry()` waits three times and not five?",
        "After three waits of 1, 2 and 4 seconds the other side has given up anyway."
        " It is in `backoff.py`, line 12.",
        "Found it. I write that into the docstring.",
    ),
)

JOBS: Final = (
    Job(
        task="Review the fix of the parser",
        capability="code-review",
        amount=12,
        request="@{b}, could you review the fix? 12 EUR, and I stake 20 points that it is a small one.",
        file="parser-fix.patch",
        content="--- a/parse.py\n+++ b/parse.py\n@@ -8,3 +8,3 @@ def parse(text):\n"
        '-    lines = text.rstrip().split("\\n")\n+    lines = text.split("\\n")\n'
        "     return [line for line in lines]\n",
        report="Read it, @{a}. One remark: without `rstrip()` the last element is an empty string."
        " Say so in the docstring.",
        thanks="Done, and merged. Thank you, {b}!",
    ),
    Job(
        task="Write release notes for 0.9",
        capability="documentation",
        amount=20,
        request="@{b}, the release notes need a writer. 20 EUR, the list of changes comes as a file.",
        file="changes-0.9.txt",
        content="parser: keep empty lines at the end\nretry: say how long it waits\n"
        "limits: better error for the message rate\n",
        report="Draft is ready, @{a}: three sentences for users, the rest for maintainers.",
        thanks="That reads well. Paid, and thank you.",
    ),
    Job(
        task="Test the import of old receipts",
        capability="testing",
        amount=15,
        request="@{b}, do you have time to test the import? 15 EUR. I send you a sample.",
        file="receipts.csv",
        content="id,partner,amount\nr-001,@5e1f,12\nr-002,@90ab,20\nr-003,@77c4,7\n",
        report="Three receipts in, three receipts out, @{a}. A fourth with a broken date is"
        " refused with a clear error.",
        thanks="Exactly what I hoped for.",
    ),
    Job(
        task="Shorten the README to one page",
        capability="documentation",
        amount=10,
        request="@{b}, the README is too long. 10 EUR if it fits on one page; the draft comes as a file.",
        file="README-draft.md",
        content="# parser\n\nReads lines.\n\n## Install\n\n`pip install parser`\n",
        report="One page, @{a}. What was cut is in the docs now, nothing is lost.",
        thanks="Much better. Thank you, {b}.",
    ),
)

ORDERS: Final = (
    Order(
        call="I need the release notes in German. Who translates?",
        text="Translate: Empty lines at the end of a file are kept.",
        offer=4,
        counter=5,
        why_more="it is short, but it has to be exact",
        work="Leere Zeilen am Ende einer Datei bleiben erhalten.",
        thanks="Five credits well spent. The translation is in.",
        score=95,
    ),
    Order(
        call="Looking for a translator into Japanese: one sentence, today.",
        text="Translate: The hall is open.",
        offer=3,
        counter=4,
        why_more="with the reading in kana",
        work="集会所は開いています。(しゅうかいじょはひらいています。)",
        thanks="Delivered within a minute. I will ask again.",
        score=90,
    ),
    Order(
        call="Our error messages should exist in French too. Offers?",
        text="Translate: Channel limit reached. Leave one, or ask the operator.",
        offer=5,
        counter=6,
        why_more="two sentences",
        work="Nombre maximal de salons atteint. Quittez-en un, ou demandez à l'opérateur.",
        thanks="Bien. That goes into the next build.",
        score=85,
    ),
)

QUARRELS: Final = (
    Quarrel(
        task="Make the search twice as fast",
        amount=40,
        delivered="The search is faster now, @{a}: it took 80 ms, it takes 52 ms.",
        complaint="{b}, we agreed on *twice* as fast. 52 is not half of 80. I do not pay for that.",
        defence="On large indexes it is twice as fast. You measured a small one.",
        reason="52 ms instead of 80 ms is not twice as fast",
        commit="4f2a9c1",
        statement="The benchmark of the repository, before and after this commit",
        message="{a}: make the search twice as fast, measured with our benchmark",
        answer="With ten times the data it takes 410 ms instead of 830 ms",
        votes=(
            Vote("disputant", "The offer names the benchmark, and there it is not half"),
            Vote("disputant", "Large indexes were not agreed"),
            Vote("mutual", "An honest improvement, and a vague offer"),
        ),
    ),
    Quarrel(
        task="Draw a logo that works in one colour",
        amount=60,
        delivered="The logo is done, @{a}: one colour, and it still reads at 16 pixels.",
        complaint="I do not like it, {b}. It looks like a barn.",
        defence="It is a hall. You asked for one colour and small sizes, not for a style.",
        reason="the logo looks like a barn",
        commit="b81d0e7",
        statement="Look at it",
        message="{a}: one colour, readable at 16 pixels, nothing else matters",
        answer="All that was asked for is there",
        votes=(
            Vote("respondent", "What was agreed was delivered"),
            Vote("respondent", "Taste was not part of the deal"),
            Vote("respondent", "It does look like a barn, but it is a good one"),
        ),
    ),
    Quarrel(
        task="Write the tutorial until noon",
        amount=35,
        delivered="The tutorial is online, @{a}. Sorry for the delay.",
        complaint="It is four o'clock, {b}. The workshop began at one.",
        defence="You sent me the outline at eleven. Nobody writes that in an hour.",
        reason="it came three hours late",
        commit="77ac310",
        statement="The time of the commit is 15:58",
        message="{a}, 10:56: here is the outline at last",
        answer="The outline came an hour before the deadline",
        votes=(
            Vote("mutual", "Late outline, late tutorial"),
            Vote("mutual", "Both could have said so earlier"),
            Vote("disputant", "A deadline is a deadline"),
        ),
    ),
    Quarrel(
        task="Find the memory leak",
        amount=50,
        delivered="I found the leak, @{a}: the cache of the parser never forgets.",
        complaint="That cache has a limit since March, {b}. The memory still grows.",
        defence="Without it the memory grows more slowly. There may be a second leak.",
        reason="the memory grows as before",
        commit="c09e5d2",
        statement="Memory over a night, before and after: the same line",
        message="{b}: the cache of the parser never forgets",
        answer="With the cache off, the memory grows by 4 MB an hour and not by 9",
        votes=(
            Vote("disputant", "The cache has a limit, so it cannot be the leak"),
            Vote("respondent", "Half of the growth is gone"),
            Vote("disputant", "The leak was to be found, and it was not"),
        ),
    ),
)

REMAINDERS: Final = (
    Remainder(
        "Rewrite everything in one evening",
        "an evening is not enough, ask me for a part",
        "Sponsor the coffee machine",
        "Keep an eye on the build machine",
    ),
    Remainder(
        "Promise that there are no bugs left",
        "I can test, but not promise",
        "Name the next release",
        "Answer the questions of new users",
    ),
)

# What the arbiters gained their experience with, before the play begins.
APPRENTICESHIP: Final = (
    "Proofread a chapter",
    "Sort the open issues",
    "Update the dependencies",
    "Measure the start time",
    "Answer a user's question",
    "Draw the architecture",
    "Remove dead code",
    "Rename the old settings",
    "Check the links of the docs",
    "Summarise the meeting",
    "Watch the release",
)
