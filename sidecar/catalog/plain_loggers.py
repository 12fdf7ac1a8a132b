"""Files of vLLM whose messages below ERROR are its own: numbers, settings, names of modules (0.2 to 0.33).

Not here are those that may tell of requests, of what clients sent, or of the command line: the
entrypoints, the schedulers (V0 names the request that it preempts), the request loggers, dumps.
"""

from collections.abc import Set as AbstractSet

PLAIN_LOGGERS: AbstractSet[str] = frozenset(
    {
        *("backends.py", "base_loader.py", "block_manager.py", "compilation.py", "coordinator.py"),
        *("core.py", "core_client.py", "cpu.py", "cpu_model_runner.py", "cpu_worker.py", "cuda.py"),
        *("custom_all_reduce.py", "decorators.py", "default_loader.py", "executor_base.py"),
        *("distributed_gpu_executor.py", "enc_dec_model_runner.py", "gpu_executor.py"),
        *("gpu_model_runner.py", "gpu_worker.py", "importing.py", "interface.py", "kernel.py"),
        *("kv_cache_utils.py", "loader.py", "loggers.py", "metrics.py", "model_runner.py"),
        *("monitor.py", "multiproc_executor.py", "multiproc_worker_utils.py", "parallel_state.py"),
        *(
            "ompmultiprocessing.py",
            "pynccl.py",
            "ray_distributed_executor.py",
            "ray_gpu_executor.py",
        ),
        *("rocm.py", "selector.py", "shm_broadcast.py", "system_utils.py", "topk_topp_sampler.py"),
        *("uniproc_executor.py", "weight_utils.py", "worker.py", "worker_base.py"),
    }
)
