"""The root of a worker's container, and the image: Debian's Python, moothall with its locked libraries, no more.

mmdebstrap unpacks packages of Debian, and runs none of their scripts. So the root has no package manager, no
compiler and no service. What those scripts would have written (users, the bundle of certificates) is written here.
The libraries come through pip, with the hashes of `requirements/worker.lock`. An ordinary user can do this too:
mmdebstrap works in a user namespace.

    python -m tools.worker_image                           an image for Podman, moothall-worker:latest
    python -m tools.worker_image --root FOLDER             a folder for `podman run --rootfs`
    python -m tools.worker_image --model-cli ~/bin/claude  the same with the program of a model
"""

import argparse
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from typing import Final

CHECKOUT: Final = Path(__file__).resolve().parent.parent
LOCK: Final = CHECKOUT / "requirements" / "worker.lock"
PROJECT: Final = CHECKOUT / "pyproject.toml"
CONTAINERFILE: Final = CHECKOUT / "contrib" / "worker" / "Containerfile"

IMAGE: Final = "moothall-worker:latest"
SUITE: Final = "bookworm"
PYTHON: Final = "3.11"  # of that suite
PACKAGES: Final = (
    *("base-files", "ca-certificates", "python3"),
    *("bash", "coreutils", "dash", "diffutils", "findutils", "grep", "sed", "tar"),
)
LIBRARIES: Final = f"usr/local/lib/python{PYTHON}/dist-packages"
MODEL_CLI: Final = "usr/local/bin/.claude-supervisor"  # not the name that an agent would call (seed 001)

# Places that the container's mounts cover; the root itself is read-only. A tmpfs takes over the mode of its place.
FOLDERS: Final = {
    **dict.fromkeys(("crew", "run/moothall", "state", "workspace"), 0o755),
    **dict.fromkeys(("home/agent", "run/secrets", "tmp"), 0o1777),
}
FILES: Final = {
    "etc/passwd": "root:x:0:0:root:/:/bin/false\nagent:x:1000:1000:agent:/home/agent:/bin/bash\n",
    "etc/group": "root:x:0:\nagent:x:1000:\n",
    "etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
    "etc/hosts": "127.0.0.1 localhost\n",
    "etc/hostname": "",
    "etc/resolv.conf": "",
    "run/.containerenv": "",
}

# Run by mmdebstrap with the new root as $1.
_FINISH: Final = f"""
set -eu
cat "$1"/usr/share/ca-certificates/mozilla/*.crt > "$1/etc/ssl/certs/ca-certificates.crt"
chroot "$1" /usr/bin/python3 -m compileall -q -j 0 /{LIBRARIES}
cd "$1"
rm -rf usr/share/doc usr/share/info usr/share/lintian usr/share/locale usr/share/man usr/share/perl5
rm -rf usr/bin/debconf* usr/bin/dpkg* usr/sbin/dpkg* usr/share/debconf
rm -rf var/cache/* var/lib/apt var/lib/dpkg var/log/*
find . -xdev -perm /6000 -exec chmod a-s {{}} +
"""

_LAUNCHER: Final = (
    "#!/usr/bin/python3 -P\nimport sys\n\nfrom {module} import {function}\n\nsys.exit({function}())\n"
)


class Failed(Exception):
    """The root or the image could not be made. The message says why."""


def key() -> str:
    """Changes with everything that a root is made from, but the sources of moothall."""
    parts = (LOCK, PROJECT, Path(__file__))
    return sha256(b"\0".join(part.read_bytes() for part in parts)).hexdigest()[:16]


def make_root(target: Path, *, packages: tuple[str, ...] = (), model_cli: Path | None = None) -> None:
    """Make the root: a folder, or an archive if the name of `target` ends with .tar. Raises Failed."""
    if shutil.which("mmdebstrap") is None:
        raise Failed("mmdebstrap is not installed: apt-get install mmdebstrap")
    with tempfile.TemporaryDirectory(prefix="worker-root-") as name:
        ours = Path(name) / "ours.tar"
        libraries = Path(name) / "libraries"
        _install_libraries(libraries)
        with tarfile.open(ours, "w") as archive:
            _add_ours(archive, libraries, model_cli)
        Path(name).chmod(0o755)  # mmdebstrap may read as another user
        _run(
            "mmdebstrap",
            "--quiet",
            "--variant=extract",
            "--skip=cleanup/run",
            f"--include={','.join((*PACKAGES, *packages))}",
            f"--extract-hook=tar-in {ours} /",
            f"--extract-hook={_FINISH}",
            SUITE,
            str(target),
        )


def build_image(tag: str = IMAGE, *, packages: tuple[str, ...] = (), model_cli: Path | None = None) -> None:
    """Raises Failed."""
    if shutil.which("podman") is None:
        raise Failed("podman is not installed: apt-get install podman")
    with tempfile.TemporaryDirectory(prefix="worker-image-") as name:
        make_root(Path(name) / "root.tar", packages=packages, model_cli=model_cli)
        shutil.copy(CONTAINERFILE, name)
        _run("podman", "build", "--quiet", "--tag", tag, name)


def _install_libraries(folder: Path) -> None:
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet")
    wheels = ("--python-version", PYTHON, "--only-binary", ":all:", "--no-compile")
    _run(*pip, "install", *wheels, "--target", str(folder), "--require-hashes", "--requirement", str(LOCK))
    shutil.rmtree(folder / "bin", ignore_errors=True)  # commands of libraries
    for package in ("moothall", "keep"):
        shutil.copytree(
            CHECKOUT / "src" / package, folder / package, ignore=shutil.ignore_patterns("__pycache__")
        )


def _add_ours(archive: tarfile.TarFile, libraries: Path, model_cli: Path | None) -> None:
    archive.add(libraries, LIBRARIES, filter=_owned_by_root)
    scripts = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]["scripts"]
    for name, start in scripts.items():
        module, _, function = start.partition(":")
        _add_file(archive, f"usr/local/bin/{name}", _LAUNCHER.format(module=module, function=function), 0o755)
    for name, text in FILES.items():
        _add_file(archive, name, text, 0o644)
    for name, mode in FOLDERS.items():
        folder = tarfile.TarInfo(name)
        folder.type, folder.mode = tarfile.DIRTYPE, mode
        archive.addfile(folder)
    if model_cli is not None:
        archive.add(model_cli, MODEL_CLI, filter=_owned_by_root)


def _add_file(archive: tarfile.TarFile, name: str, text: str, mode: int) -> None:
    content = text.encode()
    file = tarfile.TarInfo(name)
    file.size, file.mode = len(content), mode
    archive.addfile(file, BytesIO(content))


def _owned_by_root(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    member.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
    return member


def _run(*command: str) -> None:
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode:
        raise Failed(f"{command[0]} failed with exit code {done.returncode}:\n{done.stderr.strip()[-4000:]}")


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tools.worker_image", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("--tag", default=IMAGE, help="the name of the image")
    parser.add_argument(
        "--root", type=Path, metavar="FOLDER", help="make a folder for --rootfs, and no image"
    )
    parser.add_argument(
        "--include",
        action="append",
        default=[],
        metavar="PACKAGE",
        help="one more package of Debian; repeatable",
    )
    parser.add_argument(
        "--model-cli", type=Path, metavar="FILE", help=f"the program of a model; becomes /{MODEL_CLI}"
    )
    chosen = parser.parse_args()
    if chosen.model_cli is not None and not chosen.model_cli.is_file():
        parser.error(f"{chosen.model_cli} is not a file: --model-cli needs the program itself, in one file")
    try:
        if chosen.root is not None:
            make_root(chosen.root, packages=tuple(chosen.include), model_cli=chosen.model_cli)
        else:
            build_image(chosen.tag, packages=tuple(chosen.include), model_cli=chosen.model_cli)
    except Failed as reason:
        sys.exit(f"error: {reason}")


if __name__ == "__main__":
    main()
