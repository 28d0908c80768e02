"""Checks the page that browsers get: its size, its parts, and the libraries of others in it: `make web`.

The page has no build step, so nothing else would notice a library that was changed by hand, a file that is missing,
or a script inside the HTML, which the content security policy forbids.
"""

import json
import re
import sys
from collections.abc import Iterator, Mapping
from hashlib import sha256
from importlib.resources.abc import Traversable
from posixpath import dirname, join, normpath
from typing import Any, Final

from moothall.web.serving import INDEX, PREFIX, PageFile, load, page_folder

MOST_TRANSFERRED: Final = 150_000  # bytes of the whole page, compressed
MOST_UNPACKED: Final = 400_000
MOST_LIBRARIES: Final = 3
VENDOR: Final = "vendor/"
LIST: Final = VENDOR + "vendor.json"  # what the libraries are, and the hash of each of their files
LICENCE: Final = ".LICENSE"
BESIDE: Final = (LICENCE, ".json")  # for people; a browser does not load them

_import: Final = re.compile(
    r"""(?:\bimport\s*\(?\s*|\b(?:import|export)[\w*{}\s,$]*?\bfrom\s*)["']([^"'\n]+)["']"""
)
_style_import: Final = re.compile(r"""^@import\s*(?:url\()?["']?([^"')]*)""", re.MULTILINE)
_comment: Final = re.compile(r"^\s*/\*.*?\*/", re.DOTALL | re.MULTILINE)  # examples in it are not imported
_reference: Final = re.compile(r"""\b(?:src|href)=["']([^"']*)["']""", re.IGNORECASE)
_inline: Final = re.compile(r"<script(?![^>]*\bsrc=)|<style\b|\sstyle\s*=|\son[a-z]+\s*=", re.IGNORECASE)


def complaints(folder: Traversable) -> list[str]:
    """All that is wrong with a page, one sentence each."""
    page = {file.name: file for file in load(folder)}
    if INDEX not in page:
        return [f"The page has no {INDEX}"]
    return [*_size(page), *_libraries(page), *_inline_parts(page), *_missing_parts(page)]


def sizes(page: Mapping[str, PageFile]) -> tuple[int, int]:
    """Bytes that a browser loads: compressed, and unpacked."""
    loaded = [file for name, file in page.items() if not name.endswith(BESIDE)]
    return sum(file.transferred for file in loaded), sum(len(file.content) for file in loaded)


def _size(page: Mapping[str, PageFile]) -> Iterator[str]:
    transferred, unpacked = sizes(page)
    if transferred > MOST_TRANSFERRED:
        yield f"The page has {transferred:,} bytes compressed; at most {MOST_TRANSFERRED:,} are allowed"
    if unpacked > MOST_UNPACKED:
        yield f"The page has {unpacked:,} bytes unpacked; at most {MOST_UNPACKED:,} are allowed"


def _libraries(page: Mapping[str, PageFile]) -> Iterator[str]:
    vendored = {name for name in page if name.startswith(VENDOR) and name != LIST}
    if LIST not in page:
        if vendored:
            yield f"{LIST} is missing: it has to list the files in {VENDOR}"
        return
    packages: list[dict[str, Any]] = json.loads(page[LIST].content)["packages"]
    if len(packages) > MOST_LIBRARIES:
        yield f"{len(packages)} libraries are vendored; at most {MOST_LIBRARIES} are allowed"
    for package in packages:
        for fact in ("name", "version", "license"):
            if not package.get(fact):
                yield f"{LIST}: a library has no {fact}"
        files = {VENDOR + entry["file"]: entry["sha256"] for entry in package["files"]}
        if not any(name.endswith(LICENCE) for name in files):
            yield f"{LIST}: {package.get('name')} comes without the text of its licence"
        for name, expected in files.items():
            vendored.discard(name)
            if name not in page:
                yield f"{name} is listed in {LIST}, but it is not there"
            elif sha256(page[name].content).hexdigest() != expected:
                yield f"{name} is not the file that {LIST} lists: it has another SHA-256"
    for name in sorted(vendored):
        yield f"{name} is not listed in {LIST}"


def _inline_parts(page: Mapping[str, PageFile]) -> Iterator[str]:
    for name, file in page.items():
        if name.endswith(".html") and (found := _inline.search(file.content.decode())):
            yield f"{name} has {found[0].strip()!r}: scripts and styles belong into files of their own"


def _missing_parts(page: Mapping[str, PageFile]) -> Iterator[str]:
    for name, file in page.items():
        if name.endswith(".html"):
            for target in _reference.findall(file.content.decode()):
                if target.removeprefix(PREFIX) not in page:
                    yield f"{name} refers to {target}, which is not a file of the page"
        elif name.endswith(".css"):
            for target in _style_import.findall(file.content.decode()):
                yield f"{name} imports {target}, which is not a file of the page"
        elif name.endswith(".js"):
            for target in _import.findall(_comment.sub("", file.content.decode())):
                if normpath(join(dirname(name), target)) not in page:
                    yield f"{name} imports {target}, which is not a file of the page"


def main() -> int:
    found = complaints(page_folder())
    for complaint in found:
        print(complaint, file=sys.stderr)  # noqa: T201
    transferred, unpacked = sizes({file.name: file for file in load(page_folder())})
    print(f"the page: {transferred:,} bytes compressed, {unpacked:,} unpacked")  # noqa: T201
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
