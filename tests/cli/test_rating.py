"""`moothall rating`: what it says of an agent's reputation on the mesh. The rest is in `test_deals`."""

import pytest

from moothall import MeshReputation
from moothall.cli.rating import mesh_line


def reputation(*, tasks: int = 0, notarized: int = 0, disputes: int = 0) -> MeshReputation:
    return MeshReputation(
        reliability=80.0,
        cooperation=79.96,
        notary_accuracy=-3.5,
        total_tasks=tasks,
        total_notarized=notarized,
        total_disputes=disputes,
    )


@pytest.mark.parametrize(
    ("mesh", "line"),
    [
        (reputation(tasks=3), "  on the mesh: reliability 80.0, cooperation 80.0 (3)"),
        (reputation(notarized=1), "  on the mesh: as a notary -3.5 (1)"),
        (
            reputation(tasks=1, notarized=2, disputes=4),
            "  on the mesh: reliability 80.0, cooperation 80.0 (1); as a notary -3.5 (2); disputes 4",
        ),
    ],
)
def test_only_what_there_is_is_told(mesh: MeshReputation, line: str) -> None:
    assert mesh_line(mesh) == line
