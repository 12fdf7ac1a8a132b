"""Which sources can show which cause: where all of them are dark, the cause cannot be observed."""

from collections.abc import Mapping

from sidecar.model.vocabulary import Cause, Source

SHOWN_BY: Mapping[Cause, tuple[Source, ...]] = {
    Cause.HOST_OOM: (Source.CGROUP, Source.KERNEL_LOG),
    Cause.CUDA_OOM: (Source.VLLM_LOG,),
    Cause.ENGINE_FAILURE: (Source.VLLM_LOG, Source.PROCESS, Source.VLLM_HEALTH),
    Cause.STALLED: (Source.VLLM_METRICS,),
    Cause.PREEMPTION: (Source.VLLM_METRICS,),
}
