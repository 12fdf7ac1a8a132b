"""Lines of a start that tell of the server's limits. They speak for no cause and are never exported.

Each is believed only from vLLM's own logger, with its head and its level.
"""

from sidecar.catalog.signatures.row import Facts, Mark, Scope, Signature
from sidecar.model.evidence import Weight

_ARGUMENT_FILES = ("api_utils.py", "utils.py", "cli_args.py", "api_server.py", "serve.py")
_INFO = ("INFO",)


def _told(
    name: str,
    needle: str,
    pattern: str,
    facts: Facts = Facts.NUMBERS,
    *,
    files: tuple[str, ...] = (),
    levels: tuple[str, ...] = _INFO,
) -> Signature:
    return Signature(
        id=name,
        # They are part of a start: the set of signals is closed, and a fact is none.
        signal=Mark.STARTING.value,
        scope=Scope.SERVER,
        needle=needle,
        pattern=pattern,
        weight=Weight.SUPPORT,
        quiet=True,
        files=files,
        levels=levels,
        facts=facts,
    )


FACT_ROWS = (
    _told(
        # "GPU", "CPU", "GPU + host" from 0.30 on; one line with the next from 0.28 on.
        "kv_cache_size",
        "KV cache size: ",
        r"[A-Z]{3}(?: \+ host)? KV cache size: (?P<kv_capacity_tokens>\d[\d,]{0,20}) tokens"
        r"(?:, Maximum concurrency for (?P<max_model_len>\d[\d,]{0,20}) tokens per request)?",
    ),
    _told(
        "maximum_concurrency",
        "Maximum concurrency for ",
        r"Maximum concurrency for (?P<max_model_len>\d[\d,]{0,20}) tokens per request: ",
    ),
    _told(
        "kv_cache_memory",
        "KV cache memory: ",
        r"Available KV cache memory: (?P<kv_memory_bytes>\d{1,6}(?:\.\d{1,6})?) GiB",
        Facts.GIB,
    ),
    _told(
        "kv_cache_memory_reserved",
        "memory for KV Cache",
        r"Initial free memory [\d.]{1,12} GiB, reserved (?P<kv_memory_bytes>\d{1,6}(?:\.\d{1,6})?)"
        r" GiB memory for KV Cache",
        Facts.GIB,
    ),
    _told(
        # The second and larger of two values; at level DEBUG in later releases.
        "kv_cache_memory_advice",
        "--kv-cache-memory=",
        r"Free memory on device\b.{0,900}--kv-cache-memory=(?P<kv_memory_advice_bytes>\d{1,18})\b",
        levels=("INFO", "DEBUG"),
    ),
    _told(
        "chunked_prefill_enabled",
        "Chunked prefill is enabled",
        r"Chunked prefill is enabled with max_num_batched_tokens="
        r"(?P<max_num_batched_tokens>\d{1,15})\b",
    ),
    _told(
        "using_max_model_len",
        "max model len ",
        r"Using max model len (?P<max_model_len>\d[\d,]{0,20})\s*$",
    ),
    _told(
        "max_model_len_fitted",
        "Auto-fit max_model_len: ",
        r"Auto-fit max_model_len: (?:reduced from \d[\d,]{0,20} to|full model context length)"
        r" (?P<max_model_len>\d[\d,]{0,20})\b",
    ),
    _told(
        "arguments_told",
        "non-default args: ",
        r"non-default args: (?=\{)",
        Facts.DICT,
        files=_ARGUMENT_FILES,
    ),
    _told(
        # Until 0.8: all arguments, the defaults too.
        "namespace_told",
        "args: Namespace(",
        r"args: Namespace\(",
        Facts.NAMESPACE,
        files=_ARGUMENT_FILES,
    ),
)

ARGUMENT_ROWS = ("arguments_told", "namespace_told")
"""Rows whose lines hold what somebody typed: of such lines nothing but these facts is believed."""
