"""Arguments, signals and exit codes. Each command's work is in ``commands``."""

import argparse
import io
import os
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TextIO

from sidecar import __version__
from sidecar.commands.envelope_options import add_envelope
from sidecar.commands.exit_codes import DONE, USAGE
from sidecar.errors import ConfigError, SidecarError
from sidecar.parse.quantity import parse_duration, parse_size

RUN_OPTIONS: tuple[tuple[str, str, str], ...] = (
    ("target", "URL", "address of the vLLM server (default http://127.0.0.1:8000)"),
    ("metrics-path", "PATH", "path of its metrics (default /metrics)"),
    ("health-path", "PATH", "path of its health endpoint (default /health)"),
    ("target-ca-file", "FILE", "authority that signed the server's certificate"),
    ("target-token-file", "FILE", "bearer token for the server"),
    ("interval", "TIME", "time between samples (default 5s)"),
    ("window", "TIME", "length of a window, a multiple of the interval (default 15s)"),
    ("listen", "HOST:PORT", "where to serve our own metrics (default 127.0.0.1:9477)"),
    (
        "web-config-file",
        "PATH",
        "serve them with TLS, passwords, headers (exporter-toolkit's format)",
    ),
    (
        "cgroup",
        "auto|off|PATH",
        "memory cgroup of the server, or its container's id (default auto)",
    ),
    ("pid", "auto|N", "pid of the server (default auto: who listens on the target's port)"),
    ("kernel-log", "auto|off|PATH", "kernel log (default auto: /dev/kmsg where allowed)"),
    (
        "kubernetes",
        "auto|off|CONTAINER",
        "our pod by the API (default auto: where a service account allows it)",
    ),
    ("gpu", "auto|off|INDEX,...", "GPUs to watch (default auto)"),
    ("state-dir", "PATH", "keep what was counted and read over our own restart"),
    ("history", "TIME", "how long closed windows are kept (default 24h)"),
    ("envelope", "FILE", "a measured envelope: is the server still within it?"),
    ("max-preemptions-per-request", "N", "tolerated preemptions per request (default 0.01)"),
    ("max-engines", "N", "engines shown apart, 1 to 64 (default 64)"),
)


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors are one line, and whose options are written out."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(allow_abbrev=False, **settings)

    def parse_args(self, args: Sequence[str] | None = None) -> argparse.Namespace:  # type: ignore[override]  # no namespace
        """The arguments; what nobody knows is refused by its name, as its value may be a secret."""
        arguments, unknown = self.parse_known_args(args)
        if unknown:
            first = unknown[0].partition("=")[0]
            self.error(f"unknown option {first}" if first.startswith("-") else "a word too many")
        return arguments

    def error(self, message: str) -> None:  # type: ignore[override]  # it does not return
        """Refuse in one line, without the whole usage."""
        raise ConfigError(f"{message} (see {self.prog} --help)")


def duration(text: str) -> float:
    """A duration of an offline command, where the daemon's settings do not apply."""
    try:
        return parse_duration(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def size(text: str) -> int:
    """A size of an offline command."""
    try:
        return parse_size(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def add_run_options(parser: argparse.ArgumentParser) -> None:
    """The options of the daemon. Values are checked with the other places they may stand in."""
    for name, metavar, text in RUN_OPTIONS:
        parser.add_argument(f"--{name}", metavar=metavar, help=text, default=argparse.SUPPRESS)
    parser.add_argument(
        "--log",
        metavar="SPEC",
        action="append",
        default=argparse.SUPPRESS,
        help="vLLM's log: PATH, cri:PATH, docker:PATH, journald:UNIT, kubernetes:CONTAINER or stdin; "
        "may be given several times",
    )
    parser.add_argument("--config", metavar="FILE", type=Path, help="settings in a TOML file")


def add_output(parser: argparse.ArgumentParser) -> None:
    """The choice of the output."""
    parser.add_argument("--format", choices=("text", "json"), default="text", dest="output")


def build_parser() -> Parser:
    """The whole command line."""
    parser = Parser(
        prog="vllm-sidecar", description="Names what every window of a vLLM server suffered from."
    )
    parser.add_argument("--version", action="store_true", help="print the version and exit")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", parser_class=Parser)

    run = commands.add_parser("run", help="the daemon beside a vLLM server")
    add_run_options(run)

    demo = commands.add_parser("demo", help="the daemon on a recorded real session; needs nothing")
    demo.add_argument(
        "--scenario", metavar="NAME", default="preemption", help="what to play; 'list' names all"
    )
    demo.add_argument("--listen", metavar="HOST:PORT", default="127.0.0.1:9477")
    demo.add_argument("--once", action="store_true", help="stop when the recording ends")

    scan = commands.add_parser("scan", help="triage of log files")
    scan.add_argument(
        "files", nargs="+", metavar="FILE", help="a log, plain or .gz; - for standard input"
    )
    add_output(scan)

    replay = commands.add_parser("replay", help="a recording through the daemon's pipeline")
    replay.add_argument("folder", metavar="DIR", type=Path)
    replay.add_argument(
        "--interval", metavar="TIME", type=duration, help="default: as recorded, else 5s"
    )
    replay.add_argument(
        "--window", metavar="TIME", type=duration, help="default: as recorded, else 15s"
    )
    replay.add_argument(
        "--max-preemptions-per-request",
        metavar="N",
        type=float,
        help="default: as recorded, else 0.01",
    )
    replay.add_argument(
        "--html", metavar="FILE", type=Path, help="write the status page of its end, too"
    )
    add_output(replay)

    capture = commands.add_parser(
        "capture", help="record a window raw, around a time or a command that makes load"
    )
    add_run_options(capture)
    capture.add_argument("--out", metavar="DIR", type=Path, required=True, help="a new folder")
    capture.add_argument("--for", metavar="TIME", type=duration, dest="seconds")
    capture.add_argument(
        "--drain",
        metavar="TIME",
        type=duration,
        default=30.0,
        help="time for what the command leaves in the server (default 30s)",
    )
    capture.add_argument("--about", metavar="TEXT", default="", help="a line for whoever reads it")
    capture.add_argument("--bundle", metavar="FILE.tar.gz", type=Path, help="pack it, as well")
    capture.add_argument(
        "--max-size", metavar="SIZE", type=size, default=2 << 30, help="default 2GiB"
    )
    capture.add_argument("words", nargs="*", metavar="-- COMMAND", help="a command that makes load")

    add_envelope(commands.add_parser("envelope", help="a capacity benchmark in steps"), add_output)

    check = commands.add_parser("check", help="what can be observed from here, and what cannot")
    add_run_options(check)
    add_output(check)
    return parser


def settings_given(arguments: argparse.Namespace) -> dict[str, object]:
    """The daemon's settings among the arguments, by their names in the settings."""
    names = [name.replace("-", "_") for name, _, _ in RUN_OPTIONS]
    given = vars(arguments)
    return {name: given[name] for name in (*names, "log") if name in given}


def run_run(arguments: argparse.Namespace) -> int:
    """The daemon. A SIGHUP that comes while it begins waits until it can be heeded."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGHUP,))
    from sidecar.commands.run import run_daemon
    from sidecar.config import load

    try:
        return run_daemon(lambda: load(settings_given(arguments), file=arguments.config))
    except SidecarError:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        raise


def run_demo(arguments: argparse.Namespace) -> int:
    """The daemon on a stand-in."""
    from sidecar.commands.demo import run_demo as play

    return play(arguments.scenario, listen=arguments.listen, once=arguments.once)


def run_scan(arguments: argparse.Namespace) -> int:
    """Triage of logs."""
    from sidecar.commands.scan import run_scan as scan

    return scan(arguments.files, output=arguments.output)


def run_replay(arguments: argparse.Namespace) -> int:
    """A recording."""
    from sidecar.commands.replay import run_replay as replay

    return replay(
        arguments.folder,
        interval_s=arguments.interval,
        window_s=arguments.window,
        tolerance=arguments.max_preemptions_per_request,
        output=arguments.output,
        page=arguments.html,
    )


def run_capture(arguments: argparse.Namespace) -> int:
    """A recording of a live server."""
    from sidecar.commands.capture import Wish
    from sidecar.commands.capture import run_capture as capture
    from sidecar.config import load
    from sidecar.recorded_run import Load

    if (arguments.seconds is None) == (not arguments.words):
        raise ConfigError("capture: either --for TIME or -- COMMAND is needed")
    given = {"listen": "127.0.0.1:0", **settings_given(arguments), "state_dir": None}
    wish = Wish(
        folder=arguments.out,
        load=Load(arguments.seconds, tuple(arguments.words), arguments.drain),
        about=arguments.about,
        bundle=arguments.bundle,
        most_bytes=arguments.max_size,
    )
    return capture(load(given, file=arguments.config), wish)


def run_envelope(arguments: argparse.Namespace) -> int:
    """A capacity benchmark."""
    return ENVELOPE[arguments.step](arguments)


def run_envelope_run(arguments: argparse.Namespace) -> int:
    """Its stages."""
    from sidecar.commands.envelope_run import run_envelope as run

    return run(arguments.plan, arguments.out)


def run_envelope_report(arguments: argparse.Namespace) -> int:
    """Its report."""
    from sidecar.commands.envelope import run_report

    return run_report(arguments.run)


def run_envelope_compare(arguments: argparse.Namespace) -> int:
    """Two of them."""
    from sidecar.commands.envelope import run_compare

    return run_compare(arguments.before, arguments.after, output=arguments.output)


def run_envelope_rules(arguments: argparse.Namespace) -> int:
    """Alert rules from it."""
    from sidecar.commands.envelope import run_rules

    return run_rules(arguments.run, out=arguments.out, match=arguments.match)


def run_check(arguments: argparse.Namespace) -> int:
    """What can be observed."""
    from sidecar.commands.check import run_check as check
    from sidecar.config import load

    return check(load(settings_given(arguments), file=arguments.config), output=arguments.output)


ENVELOPE: dict[str, Callable[[argparse.Namespace], int]] = {
    "run": run_envelope_run,
    "report": run_envelope_report,
    "compare": run_envelope_compare,
    "rules": run_envelope_rules,
}
COMMANDS: dict[str, Callable[[argparse.Namespace], int]] = {
    "run": run_run,
    "demo": run_demo,
    "scan": run_scan,
    "replay": run_replay,
    "capture": run_capture,
    "envelope": run_envelope,
    "check": run_check,
}
"""Commands import what they need when they are called: ``scan`` needs no HTTP library."""


def run_command(argv: Sequence[str] | None) -> int:
    """Run one command, and hand over all that it printed; returns the exit code."""
    try:
        arguments = build_parser().parse_args(argv)
        if arguments.version:
            sys.stdout.write(f"vllm-sidecar {__version__}\n")
            return DONE
        if arguments.command is None:
            raise ConfigError(f"a command is needed: {', '.join(COMMANDS)}")
        return COMMANDS[arguments.command](arguments)
    finally:
        sys.stdout.flush()


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code. What nobody can be told is not told."""
    try:
        return run_command(argv)
    except SidecarError as error:
        complain(str(error))
        return USAGE
    except BrokenPipeError:
        # Whoever read our output has enough of it.
        drop(sys.stdout)
        return DONE
    except OSError as error:
        drop(sys.stdout)
        where = "the output" if error.filename is None else error.filename
        complain(f"cannot write {where}: {error.strerror or 'it is closed'}")
        return USAGE
    except KeyboardInterrupt:
        return DONE


def complain(text: str) -> None:
    """Say in one line on stderr what is wrong, if it can be said."""
    # A file's name or a key of TOML may hold the end of a line.
    line = "".join(c if c.isprintable() else "?" for c in text)
    with suppress(OSError, ValueError):
        sys.stderr.write(f"vllm-sidecar: {line}\n")
        sys.stderr.flush()


def drop(stream: TextIO) -> None:
    """What is left to write goes nowhere: at exit it would be tried, and lamented, again."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def leave(_number: int, _frame: object) -> None:
    """End at once: before the event loop runs nothing is held, and an import cannot be left."""
    os._exit(DONE)


def settle_streams() -> None:
    """Make standard streams that are closed, or cannot show every name, safe to write to.

    A stream that was closed refuses what is written, and its number is taken, so that no socket of
    ours gets it.
    """
    while (number := os.open(os.devnull, os.O_RDONLY)) <= 2:  # noqa: PLR2004  (stderr)
        continue
    os.close(number)
    # A closed one is None to Python (and to nobody else, hence no type says it).
    refusing = io.TextIOWrapper(io.BufferedReader(io.FileIO(os.devnull)))
    sys.stdout = sys.stdout or refusing
    sys.stderr = sys.stderr or refusing
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def entry() -> None:
    """The installed command."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, leave)
    settle_streams()
    try:
        sys.exit(main())
    finally:
        try:
            sys.stderr.flush()
        except (OSError, ValueError):
            drop(sys.stderr)
