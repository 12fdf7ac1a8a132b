"""A log as a busy vLLM 0.32 writes it, with known incidents at known distances; always the same.

``python -m tests.benchmarks.made_log FILE MB`` writes it and prints, as JSON, what it holds.
"""

import json
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random

INCIDENT_BYTES = 285_000
"""One incident in so many bytes: too far apart for the triage to join those that bear no time."""
BLOCKS = 12
BLOCK_LINES = 1200
SECONDS_BETWEEN = 700
"""More than the triage joins: each incident stands for itself."""

METHODS = ('"GET /metrics', '"GET /health', '"POST /v1/completions', '"POST /v1/chat/completions')
URLS = (
    "/CUDA%20out%20of%20memory",
    "/v1/models?why=Killed",
    "/%0AERROR%20EngineCore%20failed",
    "/oom/preempted/EngineCore-died-unexpectedly",
)
WORDS = [
    "the",
    "quick",
    "brown",
    "fox",
    "jumps",
    "over",
    "a",
    "lazy",
    "dog",
    "while",
    "my",
    "process",
    "was",
    "Killed",
    "and",
    "the",
    "job",
    "failed",
    "with",
    "an",
    "oom",
    "so",
    "please",
    "explain",
    "what",
    "exit",
    "codes",
    "mean",
    "and",
    "how",
    "much",
    "memory",
    "a",
    "hut",
    "needs",
    "at",
    "the",
    "start",
]
SAMPLING = (
    "SamplingParams(n=1, presence_penalty=0.0, frequency_penalty=0.0, repetition_penalty=1.0,"
    " temperature=1.0, watermarking=None, top_p=1.0, top_k=0, min_p=0.0, seed=None, stop=[],"
    " stop_token_ids=[], bad_words=[], thinking_token_budget=None, include_stop_str_in_output=False,"
    " ignore_eos=True, max_tokens=5, min_tokens=0, logprobs=None, prompt_logprobs=None,"
    " skip_special_tokens=True, spaces_between_special_tokens=True, structured_outputs=None,"
    " extra_args=None), lora_request: None."
)
START = """\
(APIServer pid=11432) INFO {t} [api_server.py:1896] vLLM API server version 0.32.0
(APIServer pid=11432) WARNING {t} [system_utils.py:255] Found ulimit of 20000 and failed to automatically increase with error current limit exceeds maximum limit. This can cause fd limit errors like `OSError: [Errno 24] Too many open files`. Consider increasing with ulimit -n
(APIServer pid=11432) INFO {t} [model.py:733] Resolved architecture: LlamaForCausalLM
(APIServer pid=11432) WARNING {t} [vllm.py:1703] Enforce eager set, disabling torch.compile, CUDAGraphs, and JIT kernel warmup.
(EngineCore pid=11533) INFO {t} [core.py:133] Initializing a V1 LLM engine (v0.32.0) with config: model='/models/m', dtype=torch.bfloat16, max_seq_len=2048
/opt/venv/lib/python3.11/site-packages/vllm/triton_utils/dispatcher.py:138: FutureWarning: `torch.distributed.reduce_op` is deprecated, please use `torch.distributed.ReduceOp` instead
  if hasattr(value, "__dict__"):

Loading safetensors checkpoint shards:   0% Completed | 0/2 [00:00<?, ?it/s]
Loading safetensors checkpoint shards:  50% Completed | 1/2 [00:00<00:00, 1.28it/s]
Loading safetensors checkpoint shards: 100% Completed | 2/2 [00:01<00:00, 1.31it/s]

(Worker pid=11805) INFO {t} [default_loader.py:501] Loading weights took 1.53 seconds
(EngineCore pid=11533) INFO {t} [kv_cache_utils.py:2327] GPU KV cache size: 524,128 tokens, Maximum concurrency for 2,048 tokens per request: 255.92x
(APIServer pid=11432) INFO {t} [launcher.py:195] Route: /v1/completions, Methods: POST
(APIServer pid=11432) INFO {t} [entry.py:140] Starting vLLM server on http://127.0.0.1:8100
INFO:     Started server process [11432]
INFO:     Waiting for application startup.
INFO:     Application startup complete.
"""
TRACE = """\
(EngineCore pid=11533) ERROR {t} [core.py:1104] Traceback (most recent call last):
(EngineCore pid=11533) ERROR {t} [core.py:1104]   File "/opt/venv/lib/python3.11/site-packages/vllm/v1/engine/core.py", line 1095, in run_engine_core
(EngineCore pid=11533) ERROR {t} [core.py:1104]     engine_core.run_busy_loop()
(EngineCore pid=11533) ERROR {t} [core.py:1104]   File "/opt/venv/lib/python3.11/site-packages/torch/nn/modules/module.py", line 1775, in _wrapped_call_impl
(EngineCore pid=11533) ERROR {t} [core.py:1104]     return self._call_impl(*args, **kwargs)
"""
KINDS = (
    "gpu_allocation",
    "capacity_rejection",
    "swap_preemption",
    "stats_preemption",
    "engine_dead",
    "process_died",
    "kernel_kill",
)
"""The seven kinds of lines that every tool counts."""
LINES = {
    "gpu_allocation": TRACE
    + "(EngineCore pid=11533) ERROR {t} [core.py:1104] torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.11 GiB of which 1.04 GiB is free.\n",
    "capacity_rejection": TRACE
    + "(EngineCore pid=11533) ERROR {t} [core.py:1104] ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when initializing the engine.\n",
    "swap_preemption": "WARNING {t} [scheduler.py:1768] Sequence group cmpl-{n:032x}-0 is preempted by PreemptionMode.SWAP mode because there is not enough KV cache space. This can affect the end-to-end performance.\n",
    "stats_preemption": "(APIServer pid=11432) INFO {t} [loggers.py:335] Engine 000: Avg prompt throughput: 130.3 tokens/s, Avg generation throughput: 370.8 tokens/s, Running: 32 reqs, Waiting: 7 reqs, Preemptions: 1, GPU KV cache usage: 99.4%, Prefix cache hit rate: 0.0%\n",
    "kernel_kill": "Nov 29 {clock} node1 kernel: [{n:5d}.118523] Memory cgroup out of memory: Killed process {n} (VLLM::EngineCor) total-vm:2392596kB, anon-rss:396916kB, file-rss:0kB, shmem-rss:0kB, UID:0 pgtables:948kB oom_score_adj:0\n",
    "engine_dead": TRACE.replace("core.py", "async_llm.py")
    + "(APIServer pid=11432) ERROR {t} [async_llm.py:815] vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue. See stack trace (above) for the root cause.\n",
    "process_died": "(APIServer pid=11432) ERROR {t} [utils.py:301] Engine core proc EngineCore_DP0 died unexpectedly, shutting down client.\n",
    "gpu_fault": "(EngineCore pid=11533) ERROR {t} [core.py:1104] torch.AcceleratorError: CUDA error: an illegal memory access was encountered\n",
    "standstill": "(APIServer pid=11432) INFO {t} [loggers.py:335] Engine 000: Avg prompt throughput: 0.0 tokens/s, Avg generation throughput: 0.0 tokens/s, Running: 4 reqs, Waiting: 3 reqs, GPU KV cache usage: 99.8%, Prefix cache hit rate: 0.0%\n",
    "start": START,
}
TURNS = (*KINDS[:-1], "gpu_fault", "standstill", KINDS[-1], "start")
"""A start follows the only root that bears no time, so that this explains no death."""


def block(random: Random) -> bytes:
    """Some quarter of a minute of a busy server's life."""
    lines: list[str] = []
    while len(lines) < BLOCK_LINES:
        lines += _lines(random)
    return "".join(line + "\n" for line in lines).encode()


def _lines(random: Random) -> Iterator[str]:
    clock = f"11-29 20:{random.randrange(60):02}:{random.randrange(60):02}"
    api = f"(APIServer pid=11432) INFO {clock}"
    kind = random.random()
    if kind < 0.08:
        yield (
            f"{api} [loggers.py:335] Engine 000: Avg prompt throughput:"
            f" {random.randrange(9000) / 10} tokens/s, Avg generation throughput:"
            f" {random.randrange(9000) / 10} tokens/s, Running: {random.randrange(32)} reqs,"
            f" Waiting: {random.randrange(3)} reqs, GPU KV cache usage:"
            f" {random.randrange(999) / 10}%, Prefix cache hit rate: 41.7%"
        )
    elif kind < 0.175:
        name = f"cmpl-{random.getrandbits(64):016x}-0"
        prompt = ""
        if random.random() < 0.15:
            prompt = f"prompt: '{' '.join(random.choices(WORDS, k=30))}', "
        yield f"{api} [request_logger.py:65] Received request {name}: {prompt}params: {SAMPLING}"
        yield f"{api} [async_llm.py:578] Added request {name}-{random.getrandbits(32):08x}."
    elif kind < 0.177:
        yield (
            f"(APIServer pid=11432) WARNING {clock} [serving_chat.py:310] Using the default"
            " sampling parameters of the model, a request may be slower"
        )
    else:
        url = random.choice(METHODS) if random.random() < 0.99 else f'"GET {random.choice(URLS)}'
        place = f"10.0.{random.randrange(256)}.{random.randrange(256)}:{random.randrange(65536)}"
        yield f'INFO:     {place} - {url} HTTP/1.1" 200 OK'


def write(path: Path, size: int) -> Counter[str]:
    """Write at least ``size`` bytes; the number of lines of each kind."""
    random = Random(20)
    blocks = [block(random) for _ in range(BLOCKS)]
    counts: Counter[str] = Counter()
    written = done = 0
    with path.open("wb") as file:
        while written < size:
            part = random.choice(blocks)
            counts["lines"] += part.count(b"\n")
            written += file.write(part)
            if written >= INCIDENT_BYTES * (done + 1):
                text = _incident(done, counts)
                counts["lines"] += text.count("\n")
                written += file.write(text.encode())
                done += 1
    return counts


def _incident(number: int, counts: Counter[str]) -> str:
    second = number * SECONDS_BETWEEN
    day, clock = divmod(second, 86_400)
    time = f"{clock // 3600:02}:{clock // 60 % 60:02}:{clock % 60:02}"
    words = {"t": f"12-{day + 1:02} {time}", "clock": time, "n": 20_000 + number}
    kind = TURNS[number % len(TURNS)]
    counts[kind] += 1
    return LINES[kind].format(**words)


if __name__ == "__main__":
    sys.stdout.write(json.dumps(write(Path(sys.argv[1]), int(sys.argv[2]) * 1_000_000)) + "\n")
