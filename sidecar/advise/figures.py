"""Figures and settings as words. Everything here comes from our own tables and from numbers."""

from sidecar.advise.facts import figure
from sidecar.model.advice import Step
from sidecar.model.limits import Limit

GIB = 1024**3
MIB = 1024**2
BYTES = frozenset(
    {
        Limit.KV_CACHE_MEMORY_BYTES,
        Limit.KV_MEMORY_BYTES,
        Limit.KV_MEMORY_ADVICE_BYTES,
        Limit.CPU_OFFLOAD_BYTES,
        Limit.KV_OFFLOADING_BYTES,
    }
)


def say_bytes(size: float) -> str:
    """``1.5 GiB``, or MiB below one."""
    return f"{size / GIB:.1f} GiB" if size >= GIB else f"{size / MIB:.0f} MiB"


def say_number(value: float) -> str:
    """Whole numbers whole, others with up to four places."""
    return f"{value:.0f}" if value == int(value) else f"{value:.4g}"


def say_value(limit: Limit, value: float) -> str:
    """The value of a setting, with its unit where it has one."""
    if limit in BYTES and value >= MIB:
        return f"{value:.0f} ({say_bytes(value)})"
    return say_number(value)


def flag_of(limit: Limit) -> str:
    """The setting as it is typed."""
    return "--" + limit.value.replace("_", "-")


def say_step(step: Step) -> str:
    """``--max-num-seqs from 32 to 7``; empty where no setting is turned or no figure is known."""
    value, now = figure(step.value), figure(step.now)
    if step.setting is None:
        return ""
    flag = flag_of(step.setting)
    if value is None:
        return flag if now is None else f"{flag}, now {say_value(step.setting, now)}"
    if now is None:
        return f"{flag} to {say_value(step.setting, value)}"
    return f"{flag} from {say_value(step.setting, now)} to {say_value(step.setting, value)}"


def say_times(value: float, noun: str) -> str:
    """A count with its noun, in the plural unless it is one."""
    return f"{value:.6g} {noun}{'' if value == 1 else 's'}"
