"""Which wires carry direct messages."""

import pytest

from moothall.errors import InvalidMessage
from moothall.hall.wires import KEEP, MESH, check_reachable, takes_messages


def test_only_the_mesh_has_no_direct_messages() -> None:
    assert [takes_messages(via) for via in (None, KEEP, MESH)] == [True, True, False]
    check_reachable("@12345678", None)
    with pytest.raises(InvalidMessage, match="@12345678 is on the mesh wire"):
        check_reachable("@12345678", MESH)
