"""What a package index is told: built for real, from a checkout and from a source distribution."""

import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from email import message_from_string
from email.message import Message
from pathlib import Path

import pytest

from moothall.web.serving import load, page_folder
from tools.package_page import origin_of, page, project_urls, web_address

ROOT = Path(__file__).parents[2]
REPOSITORY = "https://code.example.org/hall/moothall"
RELATIVE = re.compile(r"\]\((?![a-z]+:|#)")


@pytest.mark.parametrize(
    ("remote", "address"),
    [
        ("https://code.example.org/hall/moothall.git", REPOSITORY),
        ("https://code.example.org/hall/moothall/", REPOSITORY),
        ("https://user:secret-token@code.example.org/hall/moothall.git", REPOSITORY),
        ("https://Code.Example.org:8443/hall/moothall", REPOSITORY),
        ("http://code.example.org/hall/moothall", REPOSITORY),
        ("git@code.example.org:hall/moothall.git", REPOSITORY),
        ("code.example.org:hall/moothall", REPOSITORY),
        ("ssh://git@code.example.org:2222/hall/moothall.git", REPOSITORY),
        ("git://code.example.org/hall/moothall.git", REPOSITORY),
        ("", ""),
        ("/srv/git/moothall.git", ""),
        ("../moothall", ""),
        ("file:///srv/git/moothall.git", ""),
        ("https://localhost/hall/moothall.git", ""),
        ("https://mirror/hall/moothall.git", ""),
        ("https://git.office.internal/hall/moothall.git", ""),
        ("git@192.168.0.7:hall/moothall.git", ""),
        ("https://10.0.0.1/hall/moothall.git", ""),
        ("https://code.example.org/", ""),
    ],
)
def test_the_address_of_a_remote_for_a_browser(remote: str, address: str) -> None:
    assert web_address(remote) == address


def test_links_lead_into_the_repository() -> None:
    readme = "See [the\nwire](docs/wire.md#deals), ![map](docs/map.svg) and [trio](https://trio.example)."
    assert page(readme, REPOSITORY) == (
        f"See [the\nwire]({REPOSITORY}/blob/HEAD/docs/wire.md#deals), "
        f"![map]({REPOSITORY}/raw/HEAD/docs/map.svg) and [trio](https://trio.example)."
    )


def test_without_a_repository_no_link_is_broken() -> None:
    readme = "See [the wire](docs/wire.md), ![map](docs/map.svg) and [below](#speed)."
    assert page(readme, "") == "See the wire,  and [below](#speed)."
    assert project_urls("") == {}


def test_a_picture_that_is_a_link() -> None:
    shown = page("[![map](docs/map.svg)](docs/index.md)", REPOSITORY)
    assert shown == f"[![map]({REPOSITORY}/raw/HEAD/docs/map.svg)]({REPOSITORY}/blob/HEAD/docs/index.md)"


def test_code_stays_as_it_is() -> None:
    readme = "```python\nagents[0](docs/wire.md)\n```\n[wire](docs/wire.md)\n```sh\n[a](b)\n```\n"
    assert page(readme, "") == "```python\nagents[0](docs/wire.md)\n```\nwire\n```sh\n[a](b)\n```\n"


@pytest.mark.parametrize("repository", [REPOSITORY, ""])
def test_nothing_in_our_readme_is_relative(repository: str) -> None:
    readme = (ROOT / "README.md").read_text()
    assert RELATIVE.search(readme)
    shown = re.sub(r"^```.*?^```$", "", page(readme, repository), flags=re.DOTALL | re.MULTILINE)
    assert RELATIVE.search(shown) is None
    assert "](docs/" not in shown


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """What a build needs of the sources, as a clone of a public repository."""
    folder = tmp_path / "checkout"
    folder.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder)
    shutil.copytree(ROOT / "tools", folder / "tools", ignore=shutil.ignore_patterns("__pycache__"))
    for package in ("moothall", "keep"):
        (folder / "src" / package).mkdir(parents=True)
        (folder / "src" / package / "__init__.py").touch()
    shutil.copytree(ROOT / "src" / "moothall" / "web", folder / "src" / "moothall" / "web")
    git(folder, "init", "--quiet")
    git(folder, "remote", "add", "origin", "git@code.example.org:hall/moothall.git")
    return folder


def test_a_build_from_a_checkout_and_from_its_source_distribution(checkout: Path, tmp_path: Path) -> None:
    wheel = build(checkout, "wheel")
    unpacked = tmp_path / "unpacked"
    with tarfile.open(build(checkout, "sdist")) as archive:
        archive.extractall(unpacked, filter="data")
    (source,) = unpacked.iterdir()
    for metadata in (metadata_of(wheel), metadata_of(build(source, "wheel"))):
        urls = dict(line.split(", ") for line in metadata.get_all("Project-URL", []))
        assert urls == project_urls(REPOSITORY)
        assert set(urls) >= {"Documentation", "Repository", "Changelog", "Issues"}
        assert metadata["Description-Content-Type"] == "text/markdown"
        assert f"]({REPOSITORY}/blob/HEAD/docs/" in str(metadata.get_payload())


def test_a_wheel_has_the_page_that_the_hall_serves(checkout: Path) -> None:
    with zipfile.ZipFile(build(checkout, "wheel")) as wheel:
        page = zipfile.Path(wheel, "moothall/web/page/")
        packed = {file.name: file.content for file in load(page)}
    assert packed == {file.name: file.content for file in load(page_folder())}
    assert "index.html" in packed


def test_a_build_that_knows_no_repository(checkout: Path) -> None:
    git(checkout, "remote", "remove", "origin")
    metadata = metadata_of(build(checkout, "wheel"))
    assert metadata.get_all("Project-URL") is None
    assert "](docs/" not in str(metadata.get_payload())


def test_the_remote_of_another_project_around_us_is_not_ours(checkout: Path) -> None:
    inside = checkout / "vendor" / "moothall"
    inside.mkdir(parents=True)
    assert origin_of(checkout) == "git@code.example.org:hall/moothall.git"
    assert origin_of(inside) == ""


def git(folder: Path, *arguments: str) -> None:
    subprocess.run(["git", *arguments], cwd=folder, check=True, capture_output=True)


def build(folder: Path, target: str) -> Path:
    """The file that hatchling makes, without a network."""
    places = folder / "dist"
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", target],
        cwd=folder,
        check=True,
        capture_output=True,
    )
    (made,) = places.glob("*.whl" if target == "wheel" else "*.tar.gz")
    return made


def metadata_of(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        return message_from_string(archive.read(name).decode())
