"""How a process was started -> what may be told of it: enough to start it again, without its secrets."""

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from sidecar.parse.secrets import hide_argv, hide_forms, is_secret_variable

_MOST_ARGUMENTS: Final = 512
_TOLD: Final = re.compile(
    r"(?:VLLM|CUDA|NCCL|NVIDIA|PYTORCH|TORCH|OMP|RAY|HIP|ROCR|HSA|GLOO|FLASHINFER|TRITON)_[A-Z0-9_]+"
    r"|HF_HUB_OFFLINE|TRANSFORMERS_OFFLINE|TOKENIZERS_PARALLELISM|PYTHONHASHSEED|LD_PRELOAD"
)
"""Variables that change how vLLM runs; no other is told."""


@dataclass(frozen=True, slots=True)
class Launch:
    """A command line and the variables that matter to it, without secrets."""

    argv: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def command(self) -> str:
        """As a shell takes it."""
        variables = [f"{name}={shlex.quote(value)}" for name, value in self.environment.items()]
        return " ".join((*variables, *map(shlex.quote, self.argv)))


def describe_launch(argv: Sequence[str], environment: Mapping[str, str]) -> Launch:
    """What may be told of a command line and its environment."""
    return Launch(
        argv=tuple(hide_argv(argv[:_MOST_ARGUMENTS])),
        environment={
            name: hide_forms(value)
            for name, value in sorted(environment.items())
            if _TOLD.fullmatch(name) and not is_secret_variable(name)
        },
    )
