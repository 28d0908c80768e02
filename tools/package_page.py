"""What a package index shows of moothall: the README with links that work there, and the project's URLs.

The build backend runs this as a metadata hook. An index shows the README alone, so a link to `docs/wire.md` leads
nowhere there. The public address of the sources is what the checkout has as `origin`. Links become links into it,
and the project's URLs name its pages. A checkout without a public `origin` gives a package without URLs, and a
README in which relative links are plain text: no address is better than a wrong one.

A source distribution carries the result in PKG-INFO, and hatchling takes it from there when it builds the wheel.
"""

import re
import subprocess
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from hatchling.metadata.plugin.interface import MetadataHookInterface

_SCP_ADDRESS: Final = re.compile(r"(?:[^@/]+@)?(?P<host>[^:/@]+):(?P<path>[^/].*)")  # git@host:owner/name.git
_IMAGE: Final = re.compile(r"!\[(?P<text>[^\]]*)\]\((?P<target>[^)\s]+)\)")
_LINK: Final = re.compile(r"(?<!!)\[(?P<text>(?:!\[[^\]]*\]\([^)\s]+\)|[^\]])*)\]\((?P<target>[^)\s]+)\)")
_ABSOLUTE: Final = re.compile(r"[a-z][a-z0-9+.-]*:|#|//", re.IGNORECASE)
_SCHEMES: Final = frozenset(("http", "https", "ssh", "git", "git+ssh"))
_FENCE: Final = re.compile(r"(^```.*?^```$)", re.DOTALL | re.MULTILINE)
_NOT_PUBLIC: Final = (".local", ".localhost", ".internal", ".lan", ".test", ".invalid", ".example")


class PackagePage(MetadataHookInterface):
    def update(self, metadata: dict[str, Any]) -> None:
        """Set the fields that pyproject.toml leaves open: `readme` and `urls`."""
        root = Path(self.root)
        repository = web_address(origin_of(root))
        text = page((root / "README.md").read_text(encoding="utf-8"), repository)
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
        metadata["urls"] = project_urls(repository)


def origin_of(root: Path) -> str:
    """What git knows as `origin`, or nothing: no git, no checkout, or a folder inside of another checkout."""
    top = _git(root, "rev-parse", "--show-toplevel")
    if not top or Path(top).resolve() != root.resolve():
        return ""
    return _git(root, "config", "--get", "remote.origin.url")


def web_address(remote: str) -> str:
    """https://host/owner/name, without user, password, port and `.git`; nothing if the remote is not public."""
    scp = _SCP_ADDRESS.fullmatch(remote)
    if scp is not None and "://" not in remote:
        host, path = scp["host"], scp["path"]
    else:
        parts = urlsplit(remote)
        if parts.scheme not in _SCHEMES:
            return ""
        host, path = parts.hostname or "", parts.path
    path = path.strip("/").removesuffix(".git")
    if not path or not _is_public(host):
        return ""
    return f"https://{host.lower()}/{path}"


def project_urls(repository: str) -> dict[str, str]:
    if not repository:
        return {}
    return {
        "Homepage": repository,
        "Repository": repository,
        "Documentation": _file(repository, "docs/index.md"),
        "Changelog": _file(repository, "CHANGELOG.md"),
        "Issues": f"{repository}/issues",
    }


def page(readme: str, repository: str) -> str:
    """The README for a reader who has nothing else of the project. Code blocks stay as they are."""

    def link(found: re.Match[str]) -> str:
        if _ABSOLUTE.match(found["target"]):
            return found[0]
        return f"[{found['text']}]({_file(repository, found['target'])})" if repository else found["text"]

    def image(found: re.Match[str]) -> str:
        if _ABSOLUTE.match(found["target"]):
            return found[0]
        return f"![{found['text']}]({repository}/raw/HEAD/{found['target']})" if repository else ""

    parts = _FENCE.split(readme)
    return "".join(
        part if part.startswith("```") else _LINK.sub(link, _IMAGE.sub(image, part)) for part in parts
    )


def _file(repository: str, path: str) -> str:
    return f"{repository}/blob/HEAD/{path}"


def _is_public(host: str) -> bool:
    if "." not in host or f".{host.lower()}".endswith(_NOT_PUBLIC):
        return False
    try:
        return ip_address(host).is_global
    except ValueError:
        return True


def _git(root: Path, *arguments: str) -> str:
    try:
        result = subprocess.run(  # noqa: S603  # fixed arguments
            ["git", *arguments],  # noqa: S607  # the git of the user who builds
            cwd=root,
            capture_output=True,
            text=True,
            check=False,
        )
    except OSError:
        return ""
    return result.stdout.strip() if result.returncode == 0 else ""
