"""The project's image, built as its Dockerfile says, and one with a stand-in of vLLM; nothing is pulled.

In place of the base from a registry stands this machine's own Python, with the programs that the build
and a server's command call, and the libraries of all of them. What the build installs comes from PyPI.
"""

import os
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from tests.fakes.podman import Podman, podman

ROOT = Path(__file__).parents[2]
IMAGE = "localhost/vllm-sidecar:test"
SERVER_IMAGE = "localhost/vllm:test"
BUILD_S = 240

PYTHON = f"python{sys.version_info.major}.{sys.version_info.minor}"
PREFIX = Path(sys.base_prefix)
ALIASES = ("python", "python3")
PROGRAMS = ("bash", "cat", "env", "find", "ls", "mkdir", "rm", "sh", "sleep", "tee", "truncate")
LIBRARIES = ("libpthread.so.0", "libdl.so.2", "librt.so.1", "libutil.so.1", "libresolv.so.2")
"""Empty since glibc 2.34, but asked for by what was built before; and what asks for names."""
MORE_LIBRARIES = ("libgcc_s.so.1", "libstdc++.so.6")
CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
FOLDERS = ("etc", "dev", "home", "opt", "proc", "root", "run", "sys", "usr", "var", "var/lib")
LINKS = {"bin": "usr/bin", "sbin": "usr/sbin", "lib": "usr/lib", "lib64": "usr/lib64"}
LEFT_OUT = re.compile(
    r"/__pycache__|/(test|idlelib|tkinter|turtledemo|config-3[^/]*)(/|$)"
    r"|/site-packages/(?!(pip|setuptools|pkg_resources|_distutils_hack)(-|/|$))"
)
SETTINGS = {
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    "PIP_CERT": str(CERTIFICATES),
    "SSL_CERT_FILE": str(CERTIFICATES),
}
PASSED_ON = ("PIP_INDEX_URL", "PIP_TRUSTED_HOST")
"""Where this machine gets packages from, if it is told so."""

STAND_IN = "tests/process/vllm_stand_in.py"
EXPOSITION = "tests/data/expositions/0.26.0.txt"
SERVER = f"""FROM {{base}}
COPY {STAND_IN} {EXPOSITION} /opt/
COPY vllm /usr/bin/vllm
RUN mkdir -p -m 1777 /home/vllm /var/log/vllm
ENTRYPOINT ["vllm", "serve"]
"""
COMMAND = f"""#!/bin/sh
exec python /opt/{Path(STAND_IN).name} - /opt/{Path(EXPOSITION).name} /dev/stdout /dev/null 8000
"""


@pytest.fixture(scope="session")
def images() -> Iterator[Podman]:
    """Podman, with both images in its store; built once for all tests that use them."""
    with podman() as running:
        tree = running.work / "base.tar"
        _pack(tree)
        base = base_name()
        changes = [f"--change=ENV {name}={value}" for name, value in _settings().items()]
        running("import", "-q", *changes, tree, f"docker.io/library/{base}")
        tree.unlink()
        build(running, IMAGE, ROOT)
        build(running, SERVER_IMAGE, _context(running.work / "server", base))
        yield running


def base_name() -> str:
    """The base that the Dockerfile names."""
    found = re.search(r"^ARG BASE=(\S+)$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    assert found is not None
    return found[1]


def build(running: Podman, tag: str, context: Path, *arguments: str) -> None:
    """Build an image without a daemon; its health check is kept in docker's format only."""
    how = (
        "--isolation=chroot",
        "--network=host",
        "--pull=never",
        "--format=docker",
        "--layers=false",
    )
    running("build", *how, *arguments, "-t", tag, context, most_s=BUILD_S)


def can_be_made() -> bool:
    """Whether this machine has what the stand-in of the base is made of."""
    # What is below /usr belongs to the distribution, all of which is more than a base needs.
    return not PREFIX.is_relative_to("/usr") and CERTIFICATES.exists()


def _settings() -> dict[str, str]:
    return SETTINGS | {name: os.environ[name] for name in PASSED_ON if name in os.environ}


def _context(folder: Path, base: str) -> Path:
    for held in (STAND_IN, EXPOSITION):
        (folder / held).parent.mkdir(parents=True)
        shutil.copy(ROOT / held, folder / held)
    (folder / "vllm").write_text(COMMAND)
    (folder / "vllm").chmod(0o755)
    (folder / "Dockerfile").write_text(SERVER.format(base=base))
    return folder


def _pack(tree: Path) -> None:
    """The root of the base."""
    with tarfile.open(tree, "w") as archive:
        for name, mode in (*((name, 0o755) for name in FOLDERS), ("tmp", 0o1777)):
            archive.addfile(_member(name, tarfile.DIRTYPE, mode))
        for name, target in (*LINKS.items(), *((f"usr/local/bin/{n}", PYTHON) for n in ALIASES)):
            link = _member(name, tarfile.SYMTYPE)
            link.linkname = target
            archive.addfile(link)
        for path in _files():
            _add(archive, path)
        archive.add(PREFIX / "bin" / PYTHON, f"usr/local/bin/{PYTHON}", filter=_for_anybody)
        archive.add(PREFIX / "lib" / PYTHON, f"usr/local/lib/{PYTHON}", filter=_for_anybody)
        for library in (PREFIX / "lib").glob("libpython*.so*"):
            archive.add(library, f"usr/lib/{library.name}", filter=_for_anybody)


def _files() -> set[Path]:
    """The programs, and the libraries of them and of Python."""
    programs = [Path(found) for name in PROGRAMS if (found := shutil.which(name)) is not None]
    assert len(programs) == len(PROGRAMS)
    ours = [*(PREFIX / "lib" / PYTHON / "lib-dynload").glob("*.so"), PREFIX / "bin" / PYTHON]
    libraries = set(_libraries_of([*programs, *ours, *(PREFIX / "lib").glob("libpython*.so*")]))
    place = next(path.parent for path in libraries if path.name.startswith("libc.so"))
    more = {place / name for name in (*LIBRARIES, *MORE_LIBRARIES) if (place / name).exists()}
    return {*programs, *libraries, *more, CERTIFICATES}


def _libraries_of(binaries: Iterable[Path]) -> Iterator[Path]:
    told = subprocess.run(["ldd", *binaries], check=False, capture_output=True, text=True).stdout
    for word in told.split():
        path = Path(word)
        if word.startswith("/") and not word.endswith(":") and not path.is_relative_to(PREFIX):
            yield path


def _add(archive: tarfile.TarFile, path: Path) -> None:
    """A file under the name that it is called by, below the folder that this really is."""
    name = str(path.parent.resolve() / path.name).lstrip("/")
    archive.add(path.resolve(), name, filter=_for_anybody)


def _member(name: str, kind: bytes, mode: int = 0o755) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type, member.mode = kind, mode
    return member


def _for_anybody(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    if LEFT_OUT.search(f"/{member.name}"):
        return None
    member.uid = member.gid = 0
    member.mode |= 0o444 | (0o111 if member.isdir() else 0)
    return member
