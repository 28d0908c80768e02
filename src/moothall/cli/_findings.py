"""What a check of `moothall doctor` found."""

from enum import Enum
from typing import NamedTuple


class Level(Enum):
    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


class Finding(NamedTuple):
    level: Level
    subject: str
    found: str
    advice: str = ""

    def fields(self) -> dict[str, str]:
        return {
            "level": self.level.value,
            "check": self.subject,
            "found": self.found,
            "advice": self.advice,
        }


def ok(subject: str, found: str) -> Finding:
    return Finding(Level.OK, subject, found)


def warn(subject: str, found: str, advice: str) -> Finding:
    return Finding(Level.WARN, subject, found, advice)


def fail(subject: str, found: str, advice: str) -> Finding:
    return Finding(Level.FAIL, subject, found, advice)
