"""The deal on the command line in docs/mesh.md happens as it is written there, in a real hall.

All `sh` blocks of the section are one program of the shell, without the one that starts the hall. What they print
must be the `text` block after them; ids and times are others each time, but the same id stands for the same one.
"""

import re
import subprocess
from pathlib import Path

import pytest

from tests.support.server import PATIENCE, PROGRAM, environment, running_hall

pytestmark = pytest.mark.slow

PAGE = Path(__file__).parents[1] / "docs" / "mesh.md"
SECTION = PAGE.read_text().partition("## From the command line\n")[2].partition("\n## ")[0]
SERVE = "moothall serve\n"
MARK = "\x1e"  # between what two blocks print

_BLOCK = re.compile(
    r"^```sh\n(?P<code>.*?)^```$(?:\n+^```text\n(?P<printed>.*?)^```$)?", re.DOTALL | re.MULTILINE
)
_VARYING = re.compile(r"\b[0-9a-f]{16,64}\b|\d{4}-\d\d-\d\d|\d\d:\d\d:\d\d")
_ID = re.compile(r"[0-9a-f]{16,64}")


def blocks() -> list[tuple[str, str]]:
    return [(block["code"], block["printed"] or "") for block in _BLOCK.finditer(SECTION)]


def same_words(shown: str, printed: str) -> None:
    assert _VARYING.sub("…", printed) == _VARYING.sub("…", shown)


def same_ids(shown: str, printed: str) -> None:
    """An id in the page stands for one id of the run, and the other way round."""
    pairs = set(zip(_ID.findall(shown), _ID.findall(printed), strict=True))
    assert len(pairs) == len({one for one, _ in pairs}) == len({other for _, other in pairs})


def test_the_whole_deal_happens_as_it_is_written(tmp_path: Path) -> None:
    serve, *steps = blocks()
    assert serve == (SERVE, "")
    assert len(steps) >= 7
    script = "".join(f"{code}printf '{MARK}'\n" for code, _ in steps)
    with running_hall(tmp_path) as hall:
        environ = environment(
            MOOTHALL_URL=hall.url,
            MOOTHALL_DATA_DIR=str(hall.data_dir),
            HOME=str(tmp_path),
            PATH=f"{Path(PROGRAM).parent}:/usr/bin:/bin",
        )
        result = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", script],
            cwd=tmp_path,
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=10 * PATIENCE,
            check=False,
        )
        assert result.returncode == 0, result.stdout
    *printed, _ = result.stdout.split(MARK)
    for (_, expected), found in zip(steps, printed, strict=True):
        same_words(expected, found)
    same_ids("".join(expected for _, expected in steps), "".join(printed))
