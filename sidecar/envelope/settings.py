"""Two servers' identities in, the settings that differ out: what was set, what follows, what does not count.

A setting can stand in several places: as an option, a variable, a limit that the server told. What is
in effect decides where both sides tell it, else what was typed.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from sidecar.catalog.vllm_settings import SETTINGS
from sidecar.model.envelope import Identity
from sidecar.model.limits import FOUND_AT_START, Limit
from sidecar.parse.secrets import hide_argv, hide_forms
from sidecar.telling.figures import plain, say_limit

CAPACITY = "capacity"
MODEL = "model"
MODEL_NAME = "model_name"
VERSION = "vllm_version"
PROGRAM = "program"
GPUS = "gpus"
MACHINE = "machine"
CPUS = "cpus"
KV_CACHE_DTYPE = "kv_cache_dtype"
SAME_CAPACITY = 0.01
"""Start-up measures what is left for the cache: so far apart, as a share, it is the same from start to start."""

FOLLOWS: Mapping[str, tuple[str, ...]] = {
    VERSION: (
        CAPACITY,
        PROGRAM,
        "max_num_batched_tokens",
        "max_num_seqs",
        "gpu_memory_utilization",
    ),
    MODEL: (CAPACITY, MODEL_NAME, "max_model_len", "max_num_batched_tokens"),
    MODEL_NAME: (CAPACITY, "max_model_len", "max_num_batched_tokens"),
    "served_model_name": (MODEL_NAME,),
    GPUS: (CAPACITY, "max_num_batched_tokens", "max_num_seqs"),
    "CUDA_VISIBLE_DEVICES": (CAPACITY, GPUS),
    "VLLM_CPU_KVCACHE_SPACE": (CAPACITY, "kv_cache_memory_bytes"),
    "gpu_memory_utilization": (CAPACITY,),
    "kv_cache_memory_bytes": (CAPACITY,),
    "num_gpu_blocks_override": (CAPACITY,),
    "block_size": (CAPACITY,),
    KV_CACHE_DTYPE: (CAPACITY,),
    "dtype": (CAPACITY,),
    "quantization": (CAPACITY,),
    "max_model_len": (CAPACITY, "max_num_batched_tokens"),
    "max_num_seqs": (CAPACITY,),
    "max_num_batched_tokens": (CAPACITY,),
    "enforce_eager": (CAPACITY,),
    "compilation_config": (CAPACITY,),
    "speculative_config": (CAPACITY,),
    "cpu_offload_gb": (CAPACITY,),
    "tensor_parallel_size": (CAPACITY, GPUS),
    "pipeline_parallel_size": (CAPACITY, GPUS),
    "data_parallel_size": (CAPACITY, GPUS),
}
"""What else changes by itself with a setting, unless it is set too. Weights, activations and graphs are
taken off what the cache gets; some limits have defaults that depend on the model, the card or the release."""
NEUTRAL = re.compile(
    r"host|port|uds|api_key|root_path|ssl_\w+|allowed_\w+|uvicorn_log_level|log_config_file|log_level"
    r"|disable_uvicorn_access_log|disable_access_log_for_endpoints|max_log_len|disable_log_requests"
    r"|enable_log_requests|disable_fastapi_docs|served_model_name|download_dir|master_(?:addr|port)"
    r"|data_parallel_(?:address|rpc_port)|h11_max_\w+"
    r"|VLLM_(?:PORT|HOST_IP|API_KEY|LOGGING_\w+|NO_USAGE_STATS|DO_NOT_TRACK|USAGE_SOURCE|CONFIG_ROOT"
    r"|CACHE_ROOT|RPC_BASE_PATH)|HF_HUB_OFFLINE|TRANSFORMERS_OFFLINE|NCCL_DEBUG"
)
"""Options and variables that change where and under what name a server answers, not how much it carries."""
DERIVED_LIMITS = frozenset({*FOUND_AT_START, Limit.KV_CACHE_LOW_PRECISION})
"""Limits that say again, in other words, what capacity and the type of the cache say."""

_LIMIT_NAMES = {setting.limit.value: setting.name for setting in SETTINGS}
_SHORT = {short: setting.name for setting in SETTINGS for short in setting.short}
_NUMBER = re.compile(r"-\.?\d")
_SERVER = re.compile(
    r"(?:.*/)?vllm/entrypoints/(?:\w+/)*api_server\.py|vllm\.entrypoints\.(?:\w+\.)*api_server"
)
_WORDS_IN_FRONT = 16


@dataclass(frozen=True, slots=True)
class Difference:
    """A setting that is not the same. ``follows``: the other one that it follows from, if any."""

    setting: str
    before: str | None
    after: str | None
    follows: str | None = None


@dataclass(frozen=True, slots=True)
class Differences:
    """All that differs. ``causes``: set apart; ``neutral``: does not count; ``unknown``: nobody can tell."""

    causes: tuple[Difference, ...]
    followers: tuple[Difference, ...]
    neutral: tuple[Difference, ...]
    unknown: tuple[str, ...]


# --- One side -----------------------------------------------------------------------------------


def split_launch(argv: Sequence[str]) -> tuple[Sequence[str], Sequence[str]]:
    """The program with its interpreter, and what it was told."""
    for at, word in enumerate(argv[:_WORDS_IN_FRONT]):
        if word == "serve" or _SERVER.fullmatch(word):
            return argv[: at + 1], argv[at + 1 :]
    return argv[:1], argv[1:]


def read_options(words: Sequence[str]) -> dict[str, str]:
    """Options by their names in Python, the last of several; what stands without one is the model."""
    options: dict[str, str] = {}
    name = ""
    for word in words:
        if word.startswith("-") and not _NUMBER.match(word):
            option, equals, value = word.partition("=")
            plain_name = option.lstrip("-").replace("-", "_")
            plain_name = _SHORT.get(plain_name, plain_name)
            is_off = plain_name.startswith("no_")
            name = plain_name.removeprefix("no_")
            options[name] = value if equals else "off" if is_off else "on"
            if equals or is_off:
                name = ""
        elif name:
            options[name] = word if options[name] == "on" else f"{options[name]} {word}"
        else:
            options.setdefault(MODEL, word)
    return options


def read_typed(identity: Identity) -> dict[str, str]:
    """What was typed: options, variables, the program."""
    program, words = split_launch(hide_argv(identity.launch))
    typed = {name: hide_forms(value) for name, value in identity.environment.items()}
    typed |= read_options(words)
    if program:
        typed[PROGRAM] = " ".join(program)
    return typed


def read_effective(identity: Identity) -> dict[str, str]:
    """What is in effect, as the server, its metrics and this host tell it."""
    told = {
        VERSION: identity.vllm_version,
        MODEL_NAME: identity.model_name,
        KV_CACHE_DTYPE: identity.cache_dtype,
        GPUS: ", ".join(identity.gpus) or None,
        MACHINE: identity.machine,
        CPUS: None if identity.cpus is None else str(identity.cpus),
    }
    effective = {name: value for name, value in told.items() if value is not None}
    for name, value in identity.limits.items():
        if name not in DERIVED_LIMITS:
            effective.setdefault(_LIMIT_NAMES.get(name, name), say_limit(value))
    return effective


def read_capacity(identity: Identity) -> float | None:
    """Tokens of one engine's cache."""
    return identity.capacity or identity.limits.get("kv_capacity_tokens")


# --- Both ---------------------------------------------------------------------------------------


def differ(before: Identity, after: Identity) -> Iterator[tuple[Difference, bool]]:
    """What is not the same, and whether somebody typed it differently."""
    sides = (before, after)
    # Of a server whose command line nobody saw, nothing can be said to be not given.
    typed = [read_typed(side) if before.launch and after.launch else {} for side in sides]
    effective = [read_effective(side) for side in sides]
    names = dict.fromkeys(name for side in (*effective, *typed) for name in side)
    for name in names:
        was_typed = [side.get(name) for side in typed]
        is_set = was_typed[0] != was_typed[1]
        shown = [side.get(name) for side in effective]
        if None in shown:
            # One side did not tell it: only what was typed can be compared.
            shown = was_typed
        if shown[0] != shown[1]:
            yield Difference(name, *(_cut(value) for value in shown)), is_set
    capacities = read_capacity(before), read_capacity(after)
    if None not in capacities and _is_other(*capacities):
        yield Difference(CAPACITY, *(say_limit(value) for value in capacities if value)), False


def _cut(value: str | None) -> str | None:
    return None if value is None else plain(value, 80)


def _is_other(one: float | None, other: float | None) -> bool:
    return abs((one or 0) - (other or 0)) > SAME_CAPACITY * max(one or 0, other or 0)


def list_unknown(before: Identity, after: Identity) -> Iterator[str]:
    """What must be known of both sides before anything can be said to be all that differs."""
    sides = (before, after)
    if not all(side.launch for side in sides):
        yield "how the server was started"
    if None in (before.vllm_version, after.vllm_version):
        yield "vLLM's version"
    if None in (before.model_name, after.model_name):
        yield "the model"
    # A server on CPU has no GPU: its machine must be known instead.
    machines = [bool(side.gpus) or (bool(side.machine) and side.cpus is not None) for side in sides]
    if not all(machines) or bool(before.gpus) != bool(after.gpus):
        yield "the hardware"
    if None in (read_capacity(before), read_capacity(after)):
        yield "the capacity of the KV cache"


def reach(roots: Iterable[str]) -> dict[str, str]:
    """Everything that follows from these, and from what follows, by the root that it goes back to."""
    found: dict[str, str] = {}
    pending = [(name, name) for name in roots]
    while pending:
        name, root = pending.pop()
        fresh = [one for one in FOLLOWS.get(name, ()) if one not in found]
        found.update(dict.fromkeys(fresh, root))
        pending += [(one, root) for one in fresh]
    return found


def find_differences(before: Identity, after: Identity) -> Differences:
    """The settings that differ, those that only follow told apart from those that were set."""
    every = dict(sorted((one.setting, (one, is_set)) for one, is_set in differ(before, after)))
    neutral = [name for name in every if NEUTRAL.fullmatch(name)]
    counted = [name for name in every if name not in neutral]
    # A new name for the same model is neutral, and so is that metrics bear it, but nothing beyond.
    excused = {one: name for name in neutral for one in FOLLOWS.get(name, ())}
    by_itself = set(counted) - set(reach(counted)) - set(excused)
    roots = [
        name
        for name in counted
        if name in by_itself or (every[name][1] and name not in (PROGRAM, *excused))
    ]
    for name in counted:
        if name not in roots and name not in reach(roots) and name not in excused:
            roots.append(name)
    origin = reach(roots) | excused
    followers = (replace(every[n][0], follows=origin[n]) for n in counted if n not in roots)
    return Differences(
        tuple(every[name][0] for name in counted if name in roots),
        tuple(followers),
        tuple(every[name][0] for name in neutral),
        tuple(list_unknown(before, after)),
    )
