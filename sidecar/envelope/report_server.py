"""The part of a report that tells which server was measured, how it was started, and the way back."""

import shlex
from collections.abc import Iterator
from datetime import UTC, datetime

from sidecar.envelope.document import MOST_COMMAND, MOST_NAME, Block, Command, Facts, Paragraph
from sidecar.envelope.figures import Unit
from sidecar.envelope.wording import say
from sidecar.model.envelope import Envelope
from sidecar.parse.secrets import hide_argv, hide_forms
from sidecar.telling.figures import UNKNOWN, plain, say_limit


def say_time(unix: float) -> str:
    """The moment in UTC to the minute; ``-`` outside the calendar."""
    try:
        return datetime.fromtimestamp(unix, UTC).strftime("%Y-%m-%d %H:%M UTC")
    except (ValueError, OverflowError, OSError):
        return UNKNOWN


def cut_command(text: str) -> tuple[str, bool]:
    """A command that can be copied: printable but for ends of lines; and whether it had to be cut."""
    shown = "".join(c if c.isprintable() or c in "\n\t" else "?" for c in text[:MOST_COMMAND])
    return shown, len(text) > MOST_COMMAND


def command_blocks(text: str) -> Iterator[Block]:
    """A command to copy, and what is to be known before somebody runs it."""
    shown, is_cut = cut_command(text)
    yield Command(shown)
    if is_cut:
        yield Paragraph("It is longer than a report shows: the whole of it is in envelope.json.")
    if "***" in shown:
        yield Paragraph("*** stands for a secret, which no report holds.")


def launch_command(envelope: Envelope) -> str:
    """The measured server's command line, its variables in front, as a shell takes it."""
    identity = envelope.identity
    variables = [
        f"{name}={shlex.quote(hide_forms(value))}"
        for name, value in sorted(identity.environment.items())
    ]
    return " ".join((*variables, *map(shlex.quote, hide_argv(identity.launch))))


def identity_facts(envelope: Envelope) -> Facts:
    """What must be the same for the figures to hold."""
    identity = envelope.identity
    limits = [
        f"{plain(name, MOST_NAME)} {say_limit(value)}" for name, value in identity.limits.items()
    ]
    cpus = "" if identity.cpus is None else f", {identity.cpus} CPUs"
    dtype = "" if identity.cache_dtype is None else f", dtype {plain(identity.cache_dtype)}"
    capacity = "" if identity.capacity is None else " tokens in one engine"
    return Facts(
        (
            ("measured", say_time(envelope.created)),
            ("model", told(identity.model_name)),
            ("vLLM", told(identity.vllm_version)),
            ("KV cache", f"{say(identity.capacity, Unit.TOKENS)}{capacity}{dtype}"),
            ("GPUs", ", ".join(plain(name, MOST_NAME) for name in identity.gpus[:16]) or UNKNOWN),
            ("machine", f"{told(identity.machine)}{cpus}"),
            ("limits", ", ".join(sorted(limits)[:40]) or UNKNOWN),
        )
    )


def told(text: str | None) -> str:
    """A text that others wrote, or that nobody told it."""
    return UNKNOWN if text is None else plain(text)


def identity_blocks(envelope: Envelope) -> Iterator[Block]:
    """Model, version, hardware, limits, and how it was started."""
    yield identity_facts(envelope)
    if not envelope.identity.launch:
        yield Paragraph("How the server was started could not be seen.")
        return
    yield Paragraph("It was started with:")
    yield from command_blocks(launch_command(envelope))


def rollback_blocks(envelope: Envelope) -> Iterator[Block]:
    """The command line before this configuration."""
    if not envelope.rollback:
        yield Paragraph("The plan names no command to go back to.")
        return
    yield Paragraph("To go back to the configuration before this one, stop the server and start:")
    yield from command_blocks(hide_forms(envelope.rollback))
