"""vLLM's own load generator against a server: random prompts, all of a length."""

from pathlib import Path

from tests.real_vllm.server import NAME, OFFLINE, VLLM, VllmServer

PROMPT_TOKENS, OUTPUT_TOKENS = 64, 700
ENVIRONMENT = OFFLINE


def bench(server: VllmServer, concurrency: int, requests: int, results: str | Path) -> list[str]:
    """The command; its result goes to a file of its own in the folder ``results``."""
    options = {
        "backend": "openai",
        "base-url": server.url,
        "model": NAME,
        "tokenizer": server.model,
        "dataset-name": "random",
        "random-input-len": PROMPT_TOKENS,
        "random-output-len": OUTPUT_TOKENS,
        "num-prompts": requests,
        "max-concurrency": concurrency,
        "percentile-metrics": "ttft,tpot,itl,e2el",
        "metric-percentiles": "50,95,99",
        "result-dir": results,
    }
    told = [word for name, value in options.items() for word in (f"--{name}", str(value))]
    return [str(VLLM), "bench", "serve", "--ignore-eos", "--save-result", *told]
