"""The place of the mesh in a hall, and what its words become."""

import pytest

from moothall import RateLimited, UnknownRefusal
from moothall.errors import CreditsRefused, EnvelopeRejected, MoothallError, NoCover, OutOfOrder
from moothall.hall.mesh.frames import Refused
from moothall.mesh.line import error_of, mesh_url, refusal


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("ws://127.0.0.1:6667", "ws://127.0.0.1:6667/mesh"),
        ("ws://127.0.0.1:6667/", "ws://127.0.0.1:6667/mesh"),
        ("wss://hall.example/mesh", "wss://hall.example/mesh"),
        ("wss://hall.example/behind/", "wss://hall.example/behind/mesh"),
    ],
)
def test_where_the_mesh_is(url: str, place: str) -> None:
    assert mesh_url(url) == place


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        ("NoCover", NoCover),
        ("AlreadySettled", CreditsRefused),
        ("RATE_LIMITED", RateLimited),
        ("NonceReplay", EnvelopeRejected),
        ("SomethingNew", EnvelopeRejected),
    ],
)
def test_why_an_envelope_was_not_taken(fault: str, kind: type[MoothallError]) -> None:
    error = error_of(Refused(fault=fault, reason="because"))
    assert type(error) is kind
    assert str(error) == "because"


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("OUT_OF_ORDER", OutOfOrder),
        ("RATE_LIMITED", RateLimited),
        ("NEW", UnknownRefusal),
        ("UNKNOWN", UnknownRefusal),
    ],
)
def test_why_a_question_was_not_answered(code: str, kind: type[MoothallError]) -> None:
    assert type(refusal(code, "because")) is kind
