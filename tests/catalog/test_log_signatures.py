"""Every row of the table has a line that matches it and one that nearly does."""

import pytest

from sidecar.catalog.signatures import (
    LIVE_SCOPES,
    NEEDLES,
    QUIET_STARTS,
    ROWS,
    SIGNATURES,
    Facts,
    Mark,
    Scope,
    Signature,
)
from sidecar.model.evidence import Weight
from sidecar.model.vocabulary import Cause, Kind
from sidecar.parse.log_candidates import candidates
from sidecar.parse.log_match import read_line

EVERYWHERE = frozenset(Scope)
MOST_LIVE_SIGNALS = 40
BY_DEVICE = frozenset({"kv_cache_size"})
KIND_IN_NEIGHBOURS = "a kill whose limit the lines around it name"

PREEMPTED = (
    "WARNING 05-01 10:00:00 [scheduler.py:1768] Sequence group cmpl-1-0 is preempted by"
    " PreemptionMode.{} mode because there is not enough KV cache space."
    " total_num_cumulative_preemption=51"
)
STATS = (
    "Engine 000: Avg prompt throughput: {} tokens/s, Avg generation throughput: 0.0 tokens/s,"
    " Running: {} reqs, Waiting: 3 reqs,{} GPU KV cache usage: 99.8%"
)
KILLED = "process 23802 (VLLM::EngineCor) total-vm:2392596kB, anon-rss:396916kB, file-rss:0kB"

EXAMPLES: dict[str, tuple[str, str]] = {
    "v0_preempted_recompute": (PREEMPTED.format("RECOMPUTE"), PREEMPTED.format("SWAP")),
    "v0_preempted_swap": (PREEMPTED.format("SWAP"), PREEMPTED.format("RECOMPUTE")),
    "v1_stats_preemptions": (
        STATS.format("9.0", "4", " Preemptions: 3,"),
        STATS.format("9.0", "4", " Preemptions: 0,"),
    ),
    "rust_stats_preemptions": (
        (
            "Avg prompt tput: 72.3 toks/s, Avg generation tput: 2.9 toks/s, Reqs Running: 4, Waiting: 3,"
            " Preemptions: 91, GPU KV cache used: 86.7%"
        ),
        "Avg prompt tput: 72.3 toks/s, Reqs Running: 4, Waiting: 3, GPU KV cache used: 86.7%",
    ),
    "preempted_resumed": (
        "INFO 08-21 07:17:09 [scheduler.py:495] Preempted request cmpl-1-0 has been resumed!",
        "INFO 08-21 07:17:09 [scheduler.py:558] Resumed request cmpl-1-0 has 8704 computed tokens",
    ),
    "preempting_request": (
        "DEBUG 08-21 07:17:09 [scheduler.py:495] Preempting request cmpl-1-0",
        "DEBUG 08-21 07:17:09 [other.py:495] Preempting request cmpl-1-0",
    ),
    "request_preempted": (
        "WARNING 08-21 07:17:09 [scheduler.py:495] Request cmpl-1-0 was preempted",
        "WARNING 08-21 07:17:09 [scheduler.py:495] Request cmpl-1-0 was aborted, not preempted",
    ),
    "cache_has_no_blocks": (
        "INFO 04-27 10:13:05 llm_engine.py:275] # GPU blocks: 0, # CPU blocks: 256",
        "INFO 04-27 10:13:05 llm_engine.py:275] # GPU blocks: 256, # CPU blocks: 0",
    ),
    "cache_memory_negative": (
        "INFO 04-27 10:13:05 [gpu_worker.py:255] Available KV cache memory: -0.51 GiB",
        "INFO 04-27 10:13:05 [gpu_worker.py:255] Available KV cache memory: 0.51 GiB",
    ),
    "no_memory_for_cache_blocks": (
        (
            "ValueError: No available memory for the cache blocks. Try increasing"
            " `gpu_memory_utilization` when initializing the engine."
        ),
        'raise ValueError("No available memory for the cache blocks. "',
    ),
    "max_len_exceeds_cache": (
        (
            "ValueError: The model's max seq len (4096) is larger than the maximum number of tokens"
            " that can be stored in KV cache (3664)."
        ),
        "ValueError: User-specified max_model_len (9000) is greater than the derived max_model_len",
    ),
    "request_exceeds_cache": (
        (
            "ValueError: To serve at least one request with the models's max seq len (131072), (16.00"
            " GiB KV cache is needed, which is larger than the available KV cache memory (0.71 GiB)."
        ),
        (
            "INFO 01-01 10:00:00 [a.py:1] Auto-fit max_model_len: reduced from 4096 to 1920 to fit in"
            " available KV cache memory (0.0 GiB CPU)"
        ),
    ),
    "cache_needs_more_memory": (
        "16.00 GiB KV cache is needed, which is larger than the available KV cache memory (0.7",
        "INFO 07-28 23:02:27 [gpu_worker.py:255] Available KV cache memory: 18.83 GiB",
    ),
    "free_memory_below_wanted": (
        (
            "ValueError: Free memory on device cuda:1 (19.77/22.05 GiB) on startup is less than desired"
            " GPU memory utilization (0.9, 19.84 GiB)."
        ),
        "Free memory on device cuda:1 (19.77/22.05 GiB) on startup is enough",
    ),
    "not_enough_memory_for_cache": (
        "RuntimeError: Not enough GPU memory for the KV cache",
        "Insufficient memory is a common reason",
    ),
    "cpu_allocator_failed": (
        (
            "RuntimeError: [enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't"
            " allocate memory: you tried to allocate 4294967296 bytes. Error code 12"
        ),
        "DefaultCPUAllocator: in use",
    ),
    "pinned_memory_failed": (
        "RuntimeError: cudaHostAlloc failed: out of memory",
        "RuntimeError: cudaHostAlloc is not supported",
    ),
    "pinning_failed": (
        "RuntimeError: Failed to allocate 4 GiB of pinned memory",
        "WARNING 11-29 21:45:39 [x.py:72] Pin memory is not supported on CPU, nothing is pinned.",
    ),
    "errno_no_memory": (
        "OSError: [Errno 12] Cannot allocate memory",
        "OSError: [Errno 24] Too many open files",
    ),
    "call_no_memory": (
        "bash: fork: Cannot allocate memory",
        "The usual text is: fork: Cannot allocate memory",
    ),
    "python_memory_error": ("MemoryError", "MemoryErrors are rare"),
    "array_unable_to_allocate": (
        "numpy.exceptions.SomeError: Unable to allocate 2.50 GiB for an array with shape (1,)",
        "Unable to allocate a port",
    ),
    "bad_alloc": (
        "terminate called after throwing an instance of 'std::bad_alloc'",
        "catch (std::bad_alloc)",
    ),
    "xpu_no_host_memory": (
        "RuntimeError: Native API failed. Native API returns: -6 (UR_RESULT_ERROR_OUT_OF_HOST_MEMORY)",
        "RuntimeError: Native API failed. Native API returns: -5 (PI_ERROR_OUT_OF_RESOURCES)",
    ),
    "warmup_out_of_memory": (
        "RuntimeError: CUDA out of memory occurred when warming up sampler with 1024 dummy requests.",
        "INFO 01-01 10:00:00 [a.py:1] CUDA out of memory occurred when warming up sampler",
    ),
    "weights_out_of_memory": (
        (
            "ERROR 05-05 10:00:00 [gpu_model_runner.py:3302] Failed to load model - not enough GPU"
            " memory. Try lowering --gpu-memory-utilization to free memory for weights,"
        ),
        "ERROR 05-05 10:00:00 [gpu_model_runner.py:3302] Failed to load model - not found",
    ),
    "torch_out_of_memory": (
        (
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 786.00 MiB. GPU 0 has a"
            " total capacity of 79.11 GiB of which 140.75 MiB is free."
        ),
        "CUDA out of memory errors have many reasons",
    ),
    "torch_exceeds_allowed": (
        "Allocation on device 0 would exceed allowed memory. (out of memory)",
        "Allocation on device 0 was allowed; memory",
    ),
    "cumem_out_of_memory": (
        "CUDA Error: out of memory at /workspace/csrc/cumem_allocator.cpp:56",
        "CUDA Error: invalid argument at /workspace/csrc/cumem_allocator.cpp:57",
    ),
    "runtime_out_of_memory": (
        "torch.AcceleratorError: CUDA error: out of memory",
        "torch.AcceleratorError: CUDA error: an illegal memory access was encountered",
    ),
    "driver_out_of_memory": (
        "RuntimeError: cuMemCreate failed: CUDA_ERROR_OUT_OF_MEMORY",
        "RuntimeError: cuMemCreate failed: CUDA_ERROR_INVALID_VALUE",
    ),
    "named_out_of_memory": (
        "Search for `cudaErrorMemoryAllocation' in https://docs.nvidia.com/cuda/ for more",
        "Search for `cudaErrorIllegalAddress' in https://docs.nvidia.com/cuda/ for more",
    ),
    "hip_named_out_of_memory": (
        "hipMalloc failed: hipErrorOutOfMemory",
        "hipMalloc failed: hipErrorInvalidValue",
    ),
    "library_alloc_failed": (
        "RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
        "RuntimeError: CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(h)`",
    ),
    "nccl_out_of_memory": (
        "host-16:392:494 [2] enqueue.cc:43 NCCL WARN Cuda failure 2 'out of memory'",
        "host-16:392:494 [2] enqueue.cc:54 NCCL WARN Cuda failure 'invalid resource handle'",
    ),
    "xpu_out_of_memory": (
        "level_zero backend failed with error: 39 (UR_RESULT_ERROR_OUT_OF_DEVICE_MEMORY)",
        "level_zero backend failed with error: 20 (UR_RESULT_ERROR_DEVICE_LOST)",
    ),
    "xla_out_of_memory": (
        "ValueError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 2147483648 bytes.",
        "RESOURCE_EXHAUSTED: Received message larger than max (5000000 vs. 4194304)",
    ),
    "xla_ran_out_of_memory": (
        "Ran out of memory in memory space hbm. Used 18.10G of 15.75G hbm.",
        "Ran out of memory space names",
    ),
    "xla_no_room": (
        (
            "Error loading program: Attempting to reserve 1.2G at the bottom of memory. That was not"
            " possible. There are 900.0M free."
        ),
        "Error loading program: version mismatch of memory. That was not possible",
    ),
    "ray_wrapped_out_of_memory": (
        "ray.exceptions.RayTaskError(OutOfMemoryError): ray::RayWorkerWrapper.execute_method()",
        "ray.exceptions.RayTaskError(ValueError): ray::RayWorkerWrapper.execute_method()",
    ),
    "gaudi_out_of_memory": (
        "RuntimeError: [Rank:0] FATAL ERROR :: MODULE:PT_DEVMEM Allocation failed for size::939524",
        "RuntimeError: [Rank:0] FATAL ERROR :: MODULE:PT_SYNHELPER workspace",
    ),
    "malloc_out_of_memory": (
        "allocating 2.00 MiB on device 0: cudaMalloc failed: out of memory",
        "allocating 2.00 MiB on device 0: cudaMalloc failed: invalid argument",
    ),
    "pool_out_of_memory": (
        "cupy.cuda.memory.OutOfMemoryError: Out of memory allocating 1,073,741,824 bytes",
        "Out of memory? allocating less helps",
    ),
    "ray_workers_killed": (
        (
            "(raylet) node_manager.cc:3069: 2 Workers (tasks / actors) killed due to memory pressure"
            " (OOM), 0 Workers crashed due to other reasons at node (ID: 01, IP: 10.0.0.1)"
        ),
        (
            "(raylet) node_manager.cc:3069: 0 Workers (tasks / actors) killed due to memory pressure"
            " (OOM), 3 Workers crashed due to other reasons at node (ID: 01, IP: 10.0.0.1)"
        ),
    ),
    "ray_task_killed": (
        "ray.exceptions.OutOfMemoryError: Task was killed due to the node running low on memory.",
        "The process is killed by SIGKILL by OOM killer due to high memory usage.",
    ),
    "ray_node_memory": (
        (
            "Memory on the node (IP: 10.0.0.1, ID: 01ab) where the task (task ID: 02cd, name=x,"
            " pid=13378, memory used=3.37GB) was running was 12.49GB / 13.15GB (0.950003), which"
            " exceeds the memory usage threshold of 0.95."
        ),
        "Memory on the node (IP: 10.0.0.1, ID: 01ab) is plenty",
    ),
    "ray_worker_chosen": (
        "(raylet) Killing worker with task id 01 due to low memory",
        "(raylet) Killing worker with task id 01 due to job exit; memory is fine",
    ),
    "ray_exit_type": (
        "Worker exit type: NODE_OUT_OF_MEMORY Worker exit detail: Task was killed due to the node",
        "Worker exit type: SYSTEM_ERROR Worker exit detail: Worker unexpectedly exits with code 2.",
    ),
    "ray_node_nearly_full": (
        "ray.memory_monitor.RayOutOfMemoryError: More than 95% of the memory on node n1 is used",
        "More than 95% of the memory on offer is used",
    ),
    "ray_actor_died": (
        "ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.",
        "The actor played dead; nobody died",
    ),
    "ray_worker_died": (
        "A worker died or was killed while executing a task by an unexpected system error.",
        "No worker died or was killed",
    ),
    "gpu_fault": (
        "torch.AcceleratorError: CUDA error: an illegal memory access was encountered",
        "torch.AcceleratorError: CUDA error: out of memory",
    ),
    "triton_out_of_resources": (
        (
            "triton.runtime.errors.OutOfResources: out of resource: shared memory, Required: 163840,"
            " Hardware limit: 101376."
        ),
        "Kernels may run out of resource: shared memory",
    ),
    "swap_space_exhausted": (
        "RuntimeError: Aborted due to the lack of CPU swap space. Please increase the swap space",
        (
            "WARNING 07-07 00:42:34 [config.py:1632] Possibly too large swap space. 8.00 GiB of CPU"
            " swap space"
        ),
    ),
    "engine_iteration_timed_out": (
        "ERROR 06-12 07:32:53 async_llm_engine.py:524] Engine iteration timed out. This should",
        "The probe timed out",
    ),
    "collective_timed_out": (
        (
            "[rank3]:[E1021 13:00:00.123456789 ProcessGroupNCCL.cpp:616] [Rank 3] Watchdog caught"
            " collective operation timeout: WorkNCCL(SeqNum=77)"
        ),
        "[rank3]:[W1021 13:00:00.1 ProcessGroupNCCL.cpp:616] [Rank 3] Watchdog is running",
    ),
    "memory_profiling_disturbed": (
        "AssertionError: Error in memory profiling. Initial free memory 20.1 GiB, current free",
        "INFO 12-20 20:25:46 worker.py:241] memory profiling takes 19.77 seconds",
    ),
    "configuration_refused": (
        "pydantic_core._pydantic_core.ValidationError: 1 validation error for ModelConfig",
        "pydantic_core._pydantic_core.ValidationError: 1 validation error for CompletionRequest",
    ),
    "fatal_signal": (
        "*** SIGSEGV received at time=1709021359 on cpu 44 ***",
        "*** SIGTERM handler installed",
    ),
    "segfault_banner": ("!!!!!!! Segfault encountered !!!!!!!", "Segfault handler installed"),
    "fatal_python_error": (
        "Fatal Python error: Segmentation fault",
        "No Fatal Python error: all is well",
    ),
    "shared_memory_bus_error": (
        "ERROR: Unexpected bus error encountered in worker. This might be caused by insufficient",
        "The bus error handler is set",
    ),
    "shared_memory_full": (
        "OSError: [Errno 28] No space left on device: '/dev/shm/psm_0123'",
        "OSError: [Errno 28] No space left on device: '/models/cache'",
    ),
    "shared_memory_segment": (
        "Error while creating shared memory segment /dev/shm/nccl-XyZ (size 33030528)",
        "INFO 01-01 10:00:00 [a.py:1] Error while creating shared memory segment",
    ),
    "loader_worker_signal": (
        "RuntimeError: DataLoader worker (pid 123) is killed by signal: Bus error.",
        "RuntimeError: DataLoader worker (pid 123) is killed by signal: Killed.",
    ),
    "engine_dead_error": (
        (
            "vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue. See stack"
            " trace (above) for the root cause."
        ),
        "except EngineDeadError: # EngineCore encountered an issue",
    ),
    "v0_background_loop": (
        "AsyncEngineDeadError: Background loop has errored already.",
        "Background loop started",
    ),
    "v0_task_finished": (
        "AsyncEngineDeadError: Task finished unexpectedly. This should never happen!",
        "Some Task finished unexpectedly early",
    ),
    "v0_engine_loop": (
        "MQEngineDeadError: Engine loop is not running. Inspect the stacktrace to find the error",
        "Engine loop is running",
    ),
    "v0_background_task": (
        "ERROR 06-12 07:32:53 async_llm_engine.py:45] Engine background task failed",
        "ERROR 06-12 07:32:53 x.py:45] A background task failed",
    ),
    "v0_callback": (
        "Exception in callback _raise_exception_on_finish(request_tracker=<vllm.engine....x7fe",
        "Exception in callback on_click()",
    ),
    "engine_fatal_error": (
        (
            "(EngineCore_DP1 pid=3) ERROR 10-27 13:45:16 [core.py:710] EngineCore encountered a fatal"
            " error."
        ),
        (
            "(EngineCore_DP1 pid=3) INFO 10-27 13:45:16 [core.py:710] EngineCore encountered a fatal"
            " error."
        ),
    ),
    "output_handler_failed": (
        "(APIServer pid=3) ERROR 11-29 21:03:35 [async_llm.py:906] AsyncLLM output_handler failed.",
        "the output_handler failed",
    ),
    "executor_failed": ("RuntimeError: Executor failed.", 'raise RuntimeError("Executor failed.")'),
    "engine_process_died": (
        (
            "ERROR 01-16 17:16:49 [core_client.py:605] Engine core proc EngineCore_DP0 died"
            " unexpectedly, shutting down client."
        ),
        "Engine core proc EngineCore_DP0 never died unexpectedly",
    ),
    "engine_exited_unexpectedly": (
        (
            "(APIServer pid=3) WARNING 11-29 21:03:35 [core_client.py:817] [shutdown] MPClient: engine"
            " core exited unexpectedly; starting cleanup"
        ),
        (
            "(APIServer pid=3) INFO 11-29 21:03:35 [core_client.py:770] [shutdown] MPClient: start"
            " timeout=default"
        ),
    ),
    "worker_process_died": (
        (
            "(EngineCore pid=7) ERROR 11-29 22:32:53 [multiproc_executor.py:315] Worker proc"
            " VllmWorker-0 died unexpectedly (exit code: -9), shutting down executor."
        ),
        (
            "(EngineCore pid=7) INFO 11-29 22:32:53 [multiproc_executor.py:486] [shutdown] Executor: all"
            " workers exited gracefully, none died"
        ),
    ),
    "worker_fatal_signal": (
        (
            "CRITICAL 03-13 09:00:43 [core_client.py:260] Got fatal signal from worker processes,"
            " shutting down."
        ),
        "Got fatal signals to handle",
    ),
    "pool_process_terminated": (
        "BrokenProcessPool: A process in the process pool was terminated abruptly while the future",
        "It was terminated abruptly",
    ),
    "engine_start_failed": (
        (
            "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s):"
            " {}"
        ),
        "INFO 01-01 10:00:00 [x.py:1] Found ulimit of 20000 and failed to raise it",
    ),
    "nccl_error": (
        (
            "torch.distributed.DistBackendError: NCCL error in: /pytorch/NCCLUtils.cpp:77, unhandled"
            " cuda error (run with NCCL_DEBUG=INFO for details), NCCL version 2.26.2"
        ),
        "INFO 01-01 10:00:00 [pynccl.py:70] vLLM is using nccl==2.26.2, NCCL error checks on",
    ),
    "nccl_unhandled": (
        "ncclUnhandledCudaError: Call to CUDA function failed.",
        "Call to CUDA function took 3 s",
    ),
    "loader_worker_killed": (
        "RuntimeError: DataLoader worker (pid 123) is killed by signal: Killed.",
        "RuntimeError: DataLoader worker (pid 123) is killed by signal: Bus error.",
    ),
    "broadcast_block_missing": (
        (
            "INFO 10-22 09:43:49 [shm_broadcast.py:466] No available shared memory broadcast block found"
            " in 60 seconds."
        ),
        (
            "INFO 10-22 09:43:49 [shm_broadcast.py:266] vLLM message queue of shared memory broadcast"
            " blocks"
        ),
    ),
    "stats_no_progress": (STATS.format("0.0", "4", ""), STATS.format("0.0", "0", "")),
    "engine_initializing": (
        (
            "(EngineCore pid=7) INFO 11-29 20:47:43 [core.py:133] Initializing a V1 LLM engine"
            " (v0.32.0) with config: model='m'"
        ),
        "INFO 11-29 20:47:43 [x.py:1] Initializing model took 0.1 seconds",
    ),
    "api_server_version": (
        "INFO 11-27 15:31:08 api_server.py:625] vLLM API server version 0.6.4.post2",
        "INFO 11-27 15:31:08 api_server.py:625] server version 3",
    ),
    "server_process_started": (
        "(APIServer pid=9) INFO:     Started server process [9]",
        "(APIServer pid=9) INFO:     Finished server process [9]",
    ),
    "application_startup_complete": (
        "INFO:     Application startup complete.",
        "INFO:     Waiting for application startup.",
    ),
    "serving_on": (
        "(APIServer pid=9) INFO 11-29 21:23:19 [entry.py:140] Starting vLLM server on http://h:1",
        "(APIServer pid=9) INFO 11-29 21:23:19 [api.py:140] Starting vLLM API server 0 on http://h:1",
    ),
    "rust_ready": (
        (
            "(RustFrontend pid=1) INFO 11-29 21:52:13 [server/src/lib.rs:324] OpenAI server is ready to"
            ' accept requests bind_address="127.0.0.1:8250"'
        ),
        '(RustFrontend pid=1) INFO 11-29 21:52:13 [server/src/lib.rs:212] starting vLLM server model="m"',
    ),
    "shutdown_triggered": (
        (
            "(APIServer pid=9) INFO 11-29 21:24:57 [launcher.py:254] [shutdown] API server: shutdown"
            " triggered"
        ),
        (
            "(APIServer pid=9) INFO 11-29 21:24:57 [launcher.py:279] [shutdown] API server: engine"
            " client stopped"
        ),
    ),
    "engine_signalled": (
        (
            "(EngineCore pid=9) INFO 11-29 21:24:57 [core.py:1454] [shutdown] EngineCore: trigger"
            " received signal=SIGTERM"
        ),
        (
            "(EngineCore pid=9) INFO 11-29 21:24:57 [core.py:1454] [shutdown] EngineCore: trigger"
            " received signal=SIGSEGV"
        ),
    ),
    "http_server_stopping": (
        "(APIServer pid=9) INFO 11-29 21:46:02 [launcher.py:101] Shutting down FastAPI HTTP server.",
        "INFO:     Shutting down",
    ),
    "fell_asleep": (
        "INFO 05-05 10:00:00 [executor_base.py:210] It took 1.234567 seconds to fall asleep.",
        "INFO 05-05 10:00:00 [x.py:210] It took 1.234567 seconds to load",
    ),
    "woke_up": (
        "INFO 05-05 10:01:00 [executor_base.py:219] It took 0.234567 seconds to wake up tags {'w'}.",
        "INFO 05-05 10:01:00 [x.py:219] Ready to wake up",
    ),
    "kernel_summary_cgroup": (
        (
            "[ 5021.123456] oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=c,mems_allowed=0,"
            "oom_memcg=/k/pod1,task_memcg=/k/pod1/ctr,task=VLLM::EngineCor,pid=23802,uid=0"
        ),
        "[ 5021.123456] oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),pid=23802,uid=0",
    ),
    "kernel_summary_system": (
        (
            "[ 5021.123456] oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=/,mems_allowed=0,"
            "global_oom,task_memcg=/system.slice/x.service,task=python3,pid=265,uid=0"
        ),
        "[ 5021.123456] oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),pid=265,uid=0",
    ),
    "kernel_killed_cgroup": (
        f"May 15 23:09:27 node1 kernel: Memory cgroup out of memory: Killed {KILLED}",
        f"May 15 23:09:27 node1 kernel: Out of memory: Killed {KILLED}",
    ),
    "kernel_killed_system": (
        f"May 15 23:09:27 node1 kernel: Out of memory: Killed {KILLED}",
        f"May 15 23:09:27 node1 kernel: Memory cgroup out of memory: Killed {KILLED}",
    ),
    "kernel_killed_bare": (
        f"[Mon Jun 19 05:16:10 2017] Killed {KILLED}",
        "Killed process 1 by hand",
    ),
    "kernel_task_killed_by_limit": (
        "[12345.678] Task in /docker/0123 killed as a result of limit of /docker/0123",
        "A Task in /docker/0123 killed as a result of limit",
    ),
    "kernel_group_kill": (
        "[ 9.2] Tasks in /k/pod1/ctr are going to be killed due to memory.oom.group set",
        "memory.oom.group set",
    ),
    "kernel_oom_invoked": (
        "[627142.755247] dd invoked oom-killer: gfp_mask=0x101cca(GFP_HIGHUSER), order=0",
        "who invoked oom-killer? nobody",
    ),
    "kernel_memcg_usage": (
        "[12345.679] memory: usage 2097152kB, limit 2097152kB, failcnt 4711",
        "memory usage 3 kB, limit 5 kB, failcnt 3",
    ),
    "kernel_memcg_stats": (
        "[Fri Aug 21 22:26:29 2026] Memory cgroup stats for /user.slice:",
        "Memory cgroup stats for users",
    ),
    "kernel_reaped": (
        "[ 9.2] oom_reaper: reaped process 77 (ray::RayWorkerW), now anon-rss:0kB",
        "[ 9.2] oom_reaper: unable to reap pid:77",
    ),
    "kernel_victim_exiting": (
        "[ 9.2] Memory cgroup out of memory: OOM victim 15674 (python3) is already exiting. Skip",
        "[ 9.2] an OOM victim 15674 is exiting",
    ),
    "kernel_task_table": (
        "[  102.330297] [  pid  ]   uid  tgid total_vm      rss pgtables_bytes swapents name",
        "[  102.330309] [    963]   993   963     3645     1395        0 total_vm",
    ),
    "kernel_nothing_to_kill": (
        "[ 9.2] Out of memory and no killable processes...",
        "no killable processes",
    ),
    "kernel_allocation_failure": (
        "[ 9.2] kworker/0:1: page allocation failure: order:4, mode:0xcc0(GFP_KERNEL)",
        "page allocation failure",
    ),
    "kernel_memcg_frame": (
        "Jun 13 23:04:43 node1 kernel:  [<ffffffffbe835506>] mem_cgroup_oom_synchronize+0x546/0x570",
        "mem_cgroup_size is 3",
    ),
    "kernel_charge_frame": (
        "[627142.806333]  try_charge_memcg+0x827/0xa90",
        "[627142.806333]  uncharge_memcg+0x827/0xa90",
    ),
    "systemd_unit_oom_killed": (
        (
            "May 15 23:09:27 node1 systemd[1]: vllm.service: A process of this unit has been killed by"
            " the OOM killer."
        ),
        "May 15 23:09:27 node1 systemd[1]: Started Userspace by the OOM killer.",
    ),
    "systemd_unit_oom_some": (
        (
            "May 15 23:09:27 node1 systemd[1]: vllm.service: The kernel OOM killer killed some processes"
            " in this unit."
        ),
        "The kernel OOM killer killed some processes",
    ),
    "systemd_result_oom": (
        "May 15 23:09:27 node1 systemd[1]: vllm.service: Failed with result 'oom-kill'.",
        "May 15 23:09:27 node1 systemd[1]: vllm.service: Failed with result 'signal'; no oom-kill",
    ),
    "oomd_killed": (
        (
            "Sep 10 14:59:49 node1 systemd-oomd[34]: Killed /system.slice/vllm.service due to memory"
            " pressure for /system.slice being 60.12% > 50.00%"
        ),
        "Sep 10 14:59:49 node1 systemd-oomd[34]: Considered 145 cgroups; Killed /none",
    ),
    "oomd_killed_unit": (
        (
            "Sep 10 14:59:49 node1 systemd[1]: vllm.service: systemd-oomd killed 2 process(es) in this"
            " unit."
        ),
        "Sep 10 14:59:49 node1 systemd[1]: vllm.service: systemd-oomd killed 0 process(es)",
    ),
    "earlyoom_killed": (
        'earlyoom[1]: sending SIGTERM to process 4711 uid 0 "python3": badness 900, VmRSS 9000 MiB',
        "sending SIGTERM to process 4711",
    ),
    "slurm_oom_killed": (
        "slurmstepd: error: Detected 1 oom_kill event in StepId=123.0. Some of the step tasks",
        "slurmstepd: error: Detected 0 oom_kill events",
    ),
    "batch_memory_limit": (
        "TERM_MEMLIMIT: job killed after reaching LSF memory usage limit.",
        "Memory limit of the queue is 3",
    ),
    "pod_reason_oom_killed": ("      Reason:       OOMKilled", "A reason OOMKilled needs care"),
    "pod_json_oom_killed": (
        '{"terminated":{"containerID":"c://0","exitCode":137,"reason":"OOMKilled"}}',
        '{"terminated":{"containerID":"c://0","exitCode":137,"reason":"Error"},"note":"OOMKilled"}',
    ),
    "pod_status_oom_killed": (
        "vllm-0   0/1     OOMKilled   3 (40s ago)  5m",
        "vllm-0   0/1     Running   0  5m  OOMKilled",
    ),
    "inspect_oom_killed": ('            "OOMKilled": true,', '            "OOMKilled": false,'),
    "inspect_oom_short": ("oom=true exit=137 error=", "oom=false exit=137 error="),
    "node_event_cgroup_oom": (
        "  Warning  CgroupOOM  28s   kubelet   Cgroup OOM encountered, victim process: stress",
        "  Normal   Started    28s   kubelet   Started CgroupOOM watcher",
    ),
    "node_event_kill_cgroup": (
        "  Warning  OOMKilling  5m  kernel-monitor, node1  Memory cgroup out of memory: Killed 1",
        "  Warning  OOMKilling  5m  kernel-monitor, node1  Out of memory: Killed process 1",
    ),
    "node_event_kill_system": (
        "5m23s  Warning   SystemOOM   node/node1   System OOM encountered, victim process: python3",
        "  Normal  NodeHasSufficientMemory  17m  kubelet  no SystemOOM",
    ),
    "kubelet_system_oom": (
        "W1020 10:00:00.000000    1 oom_watcher_linux.go:82] Got sys oom event: &{pid:1}. System OOM",
        "No System OOM encountered",
    ),
    "kubelet_evicted_memory": (
        "Message:        The node was low on resource: memory. Container vllm was using 43536Ki",
        "Message:        The node was low on resource: ephemeral-storage. memory is fine",
    ),
    "kubelet_evicted_event": (
        "  Warning  Evicted  2m  kubelet  The node was low on resource: memory. Threshold: 100Mi",
        "  Warning  Evicted  2m  kubelet  The node was low on resource: ephemeral-storage.",
    ),
    "kubelet_memory_pressure": (
        "  message: 'Pod The node had condition: [MemoryPressure]. '",
        "  message: 'Pod The node had condition: [DiskPressure], no MemoryPressure'",
    ),
    "containerd_task_oom": (
        'time="2023-02-26T12:05:17.3Z" level=debug msg="event forwarded" ns=k8s.io topic=/tasks/oom',
        'time="2023-02-26T12:05:17.3Z" level=debug msg="event forwarded" topic=/tasks/exit oom=0',
    ),
    "containerd_task_oom_event": (
        'time="2026-01-01T00:00:00.0Z" level=info msg="TaskOOM event container_id:0123"',
        'time="2026-01-01T00:00:00.0Z" level=info msg="no TaskOOM event"',
    ),
    "docker_event_oom": (
        "2026-01-01T10:00:00.123456789+01:00 container oom 0123456789abcdef (image=vllm)",
        "2026-01-01T10:00:00.123456789+01:00 container oom handler started",
    ),
    "conmon_oom": ("conmon 0123456789ab <ninfo>: OOM received", "OOM was not received"),
    "orchestrator_oom_killed": ("OOM Killed", "If OOM Killed appears, raise the limit"),
    "kubelet_reclaims_memory": (
        (
            'I0101 10:00:00.000000    1 eviction_manager.go:366] "Eviction manager: attempting to'
            ' reclaim" resourceName="memory"'
        ),
        (
            'I0101 10:00:00.000000    1 eviction_manager.go:366] "Eviction manager: attempting to'
            ' reclaim" resourceName="ephemeral-storage"'
        ),
    ),
    "task_oom_killed": (
        "OutOfMemoryError: Container killed due to memory usage",
        "An OutOfMemoryError: Container killed due to memory usage",
    ),
    "controller_reports_gpu_oom": (
        (
            'I0902 00:55:35.305769    1 server.go:2282] "HTTP call done" worker=1 statusCode=500 err="a'
            ' Call to wake_up method failed: CUDA Error: out of memory at x:163"'
        ),
        (
            'I0902 00:55:35.305769    1 server.go:2282] "HTTP call done" worker=1 statusCode=200 err="a'
            ' Call to wake_up method failed: CUDA Error: out of memory at x:163"'
        ),
    ),
    "nvidia_driver_no_memory": (
        "[ 9.1] NVRM: nvCheckOkFailedNoLog: Check failed: Out of memory [NV_ERR_NO_MEMORY] (0x51)",
        "NV_ERR_NO_MEMORY is 0x51",
    ),
    "nvidia_gpu_lost": (
        "[ 9.1] NVRM: Xid (PCI:0000:44:00): 79, GPU has fallen off the bus",
        "a leaf has fallen off the bus",
    ),
    "nvidia_xid": (
        "[ 9.1] NVRM: Xid (PCI:0000:1a:00): 31, pid=477445, name=python3, Ch 00000008",
        "[ 9.1] NVRM: Xid (PCI:0000:1a:00): 63, pid=477445, name=python3, row remapped",
    ),
    "nvidia_xid_after": (
        "kernel: NVRM: Xid (PCI:0000:dc:00): 45, pid=1818990, name=python3, Ch 00000001",
        "kernel: NVRM: Xid (PCI:0000:dc:00): 94, pid=1818990, name=python3",
    ),
    "kernel_segfault": (
        "[ 9.1] VLLM::EngineCor[1645]: segfault at 0 ip 00007f in libintel-ext-pt-cpu.so",
        "[ 9.1] firefox[1645]: segfault at 0 ip 00007f",
    ),
    "shell_killed": (
        "/entrypoint.sh: line 12:   345 Killed                  vllm serve /models/m",
        "Killed by whom?",
    ),
    "shell_crashed": (
        "/entrypoint.sh: line 12:   345 Segmentation fault      (core dumped) vllm serve",
        "If core dumped, look for it",
    ),
    "worker_sent_sigkill": (
        "Worker (pid:42) was sent SIGKILL! Perhaps out of memory?",
        "SIGKILL cannot be caught",
    ),
    "exit_code_killed": ("      Exit Code:    137", "      Exit Code:    143"),
    "exit_code_crashed": ("      Exit Code:    139", "      Exit Code:    137"),
    "systemd_main_killed": (
        (
            "May 15 23:09:27 node1 systemd[1]: vllm.service: Main process exited, code=killed,"
            " status=9/KILL"
        ),
        (
            "May 15 23:09:27 node1 systemd[1]: vllm.service: Main process exited, code=exited,"
            " status=1/FAILURE"
        ),
    ),
    "systemd_main_crashed": (
        (
            "May 15 23:09:27 node1 systemd[1]: vllm.service: Main process exited, code=dumped,"
            " status=11/SEGV"
        ),
        (
            "May 15 23:09:27 node1 systemd[1]: vllm.service: Main process exited, code=killed,"
            " status=15/TERM"
        ),
    ),
    "systemd_starting": (
        "Apr 17 07:53:51 node1 systemd[1]: Started vllm.service - vLLM Service.",
        "Apr 17 07:53:51 node1 systemd[1]: Started nginx.service - a proxy.",
    ),
    "systemd_stopping": (
        "Apr 17 07:53:51 node1 systemd[1]: Stopping vllm.service - vLLM Service...",
        "Apr 17 07:53:51 node1 systemd[1]: Stopping nginx.service - a proxy...",
    ),
    "uvicorn_stopping": ("INFO:     Shutting down", "INFO:     Shutting down shards"),
    "uvicorn_waiting": (
        "INFO:     Waiting for application shutdown.",
        "INFO:     Waiting for application startup.",
    ),
    "uvicorn_stopped": (
        "INFO:     Application shutdown complete.",
        "INFO:     Application startup complete.",
    ),
    "pin_memory_frame": (
        '  File "/opt/vllm/v1/worker/x.py", line 12, in _pin_memory',
        "INFO 01-01 10:00:00 [x.py:1] pin_memory is on",
    ),
    "caught_out_of_memory": (
        "WARNING 08-02 09:00:01 [x.py:900] CUDA out of memory during autotuning, retrying with less",
        "WARNING 08-02 09:00:01 [x.py:900] CUDA out of memory. Try reducing max_num_seqs, or a smaller model",
    ),
    "warned_out_of_memory": (
        "WARNING 08-02 09:00:01 [x.py:900] CUDA out of memory. Tried to allocate 2.00 GiB.",
        "ERROR 08-02 09:00:01 [x.py:900] CUDA is out of memory. Tried to allocate 2.00 GiB.",
    ),
    "triton_out_of_memory": (
        "RuntimeError: Triton Error [HIP]:  Code: 2, Messsage: out of memory",
        "RuntimeError: Triton Error [CUDA]: device kernel image is invalid, not out of memory",
    ),
    "virtual_gpu_refused": (
        "[HAMI-core ERROR (pid:7 thread=140360328144640 allocator.c:115)]: cuMemoryAllocate failed res=2",
        "[HAMI-core ERROR (pid:7 thread=140360328144640 allocator.c:115)]: cuMemoryAllocate failed res=1",
    ),
    "device_bad_alloc": (
        "MemoryError: std::bad_alloc: out_of_memory: CUDA error at: /rmm/cuda_memory_resource.hpp:69: cudaErrorMemoryAllocation out of memory",
        "MemoryError: std::bad_alloc",
    ),
    "virtual_gpu_limit": (
        "[HAMI-core ERROR (pid:12 thread=34 allocator.c:49)]: Device 0 OOM 5246025728 / 4194304000",
        "[HAMI-core Warn (pid:12 thread=34 allocator.c:49)]: Device 0 OOM never",
    ),
    "rust_allocation_failed": (
        "memory allocation of 8589934592 bytes failed",
        "memory allocation of the engine: 8589934592 bytes",
    ),
    "go_allocation_failed": (
        "fatal error: runtime: out of memory",
        "fatal error: all goroutines are asleep - deadlock!, not runtime: out of memory",
    ),
    "arrow_allocation_failed": (
        "pyarrow.lib.ArrowMemoryError: malloc of size 1073741824 failed",
        "pyarrow: malloc of size 1073741824 succeeded",
    ),
    "scratchpad_exceeded": (
        "RESOURCE_EXHAUSTED: XLA:TPU compile permanent error. Ran out of memory in memory space smem. Used 1.00M of 1.00M smem.",
        "RESOURCE_EXHAUSTED: XLA:TPU compile permanent error. Ran out of memory in memory space hbm. Used 17.2G of 15.7G hbm.",
    ),
    "ray_exit_detail": (
        "A worker died or was killed while executing a task. RayTask ID: a66 Worker exit type: SYSTEM_ERROR Worker exit detail: Task was killed due to the node running low on memory.",
        "A worker died or was killed while executing a task. Worker exit type: SYSTEM_ERROR Worker exit detail: Worker unexpectedly exits, the node is not running low on memory.",
    ),
    "ray_system_memory_low": (
        "(raylet) [2022-08-29 15:18:33,592 E 307 344] (raylet) node_manager.cc:2963: System memory low at node with IP 172.17.0.2. Used memory (23.63GB) / total capacity (33.28GB) (0.709971) exceeds threshold 0.7, killing latest task with name a and actor ID dc0d",
        "(raylet) System memory low at node with IP 172.17.0.2, below threshold 0.7",
    ),
    "ray_kill_details": (
        "[2026-07-04 02:11:09,118 E 511 511] (raylet) node_manager.cc:2201: Killing 2 worker(s), kill details: Memory on the node (IP: 10.20.0.4, ID: 351e) was 502.10GB / 512.00GB (0.98), which exceeds the memory usage threshold of 0.95",
        "(raylet) Killing 2 worker(s), kill details: the job finished",
    ),
    "batch_state_out_of_memory": (
        "State: OUT_OF_MEMORY (exit code 0)",
        "State: COMPLETED (exit code 0), never OUT_OF_MEMORY",
    ),
    "batch_job_killed": (
        "=>> PBS: job killed: mem 33554432kb exceeded limit 31457280kb",
        "=>> PBS: job killed: walltime 3635 exceeded limit 3600",
    ),
    "node_reason_kill": ('    "reason": "OOMKilling",', '    "reason": "OOMKillingDisabled",'),
    "exit_named_oom": (
        "vllm-1 exited with code 137 (OOM killed)",
        "vllm-1 exited with code 137 (stopped by hand)",
    ),
    "container_memory_limit": (
        "Container vllm exceeded memory limit",
        "Container vllm is within its memory limit",
    ),
    "container_died_oom": (
        "container died (oom)",
        "container died 3f1c (image=vllm, name=vllm, exitcode=1)",
    ),
    "kv_cache_size": (
        (
            "(EngineCore pid=7) INFO 11-29 20:49:58 [kv_cache_utils.py:2327] GPU + host KV cache size:"
            " 4,128 tokens, Maximum concurrency for 2,048 tokens per request: 2.02x"
        ),
        "(EngineCore pid=7) INFO 11-29 20:49:58 [x.py:1] GPU KV cache size: unknown",
    ),
    "maximum_concurrency": (
        "INFO 12-20 20:25:46 executor.py:61] Maximum concurrency for 40000 tokens per request: 1.54x",
        "WARNING 12-20 20:25:46 executor.py:61] Maximum concurrency for 400 tokens per request: 1.5x",
    ),
    "kv_cache_memory": (
        (
            "(VllmWorker rank=0 pid=18) INFO 07-24 01:03:07 [gpu_worker.py:245] Available KV cache"
            " memory: 18.67 GiB"
        ),
        "INFO 07-24 01:03:07 [gpu_worker.py:245] Available KV cache memory: plenty",
    ),
    "kv_cache_memory_reserved": (
        (
            "INFO 07-24 01:03:07 [gpu_worker.py:245] Initial free memory 47.03 GiB, reserved 8.00 GiB"
            " memory for KV Cache as specified by kv_cache_memory_bytes config"
        ),
        "INFO 07-24 01:03:07 [gpu_worker.py:245] Initial free memory 47.03 GiB, reserved none",
    ),
    "kv_cache_memory_advice": (
        (
            "(Worker_TP0 pid=9) INFO 10-01 01:03:07 [gpu_worker.py:392] Free memory on device"
            " (43.9/44.39 GiB) on startup. Desired GPU memory utilization is (0.8, 35.51 GiB). Replace"
            " gpu_memory_utilization config with `--kv-cache-memory=31966072012` to fit into requested"
            " memory, or `--kv-cache-memory=40974729216` to fully utilize gpu memory."
        ),
        "INFO 10-01 01:03:07 [gpu_worker.py:392] Free memory on device (43.9/44.39 GiB) on startup.",
    ),
    "chunked_prefill_enabled": (
        (
            "(ApiServer_1 pid=9) INFO 11-29 21:05:10 [scheduler.py:307] Chunked prefill is enabled with"
            " max_num_batched_tokens=2048."
        ),
        "INFO 11-29 21:05:10 [scheduler.py:307] Chunked prefill is enabled.",
    ),
    "using_max_model_len": (
        "(APIServer pid=9) INFO 11-29 20:49:42 [model.py:2152] Using max model len 2048",
        "(APIServer pid=9) INFO 11-29 20:49:42 [model.py:2152] Using max model len 2048 says a client",
    ),
    "max_model_len_fitted": (
        (
            "(EngineCore pid=7) INFO 01-01 10:00:00 [kv_cache_utils.py:1] Auto-fit max_model_len:"
            " reduced from 262144 to 172032 to fit in available GPU memory (3.01 GiB)"
        ),
        "ERROR 01-01 10:00:00 [a.py:1] Auto-fit max_model_len: reduced from 262144 to 172032",
    ),
    "arguments_told": (
        (
            "(APIServer pid=9) INFO 11-29 20:49:42 [api_utils.py:286] non-default args: {'model': 'm',"
            " 'max_num_seqs': 32}"
        ),
        "(APIServer pid=9) INFO 11-29 20:49:42 [protocol.py:9] non-default args: {'max_num_seqs': 32}",
    ),
    "namespace_told": (
        (
            "INFO 11-27 15:31:08 api_server.py:626] args: Namespace(host=None, port=8000, model='m',"
            " max_model_len=4096)"
        ),
        "INFO 11-27 15:31:08 logger.py:626] args: Namespace(model='m', max_model_len=4096)",
    ),
    "launcher_exit_code_killed": (
        "E1030 01:00:00.000000 7 torch/distributed/elastic/multiprocessing/api.py:869] failed (exitcode: -9) local_rank: 1 (pid: 1168) of binary: /usr/bin/python3",
        "failed (exitcode: 1) local_rank: 1 (pid: 1168) of binary: /usr/bin/python3",
    ),
    "launcher_sigkill": (
        "torch.multiprocessing.spawn.ProcessExitedException: process 0 terminated with signal SIGKILL",
        "Sending process 1167 closing signal SIGKILL",
    ),
    "launcher_killed": (
        "srun: error: gpu01: task 0: Killed",
        "srun: error: gpu01: task 0: Exited with exit code 1, not Killed",
    ),
}


def ids_in(line: str) -> list[str]:
    return [said.signature.id for said in read_line(line, EVERYWHERE)]


def test_every_row_has_its_two_lines_and_every_line_its_row() -> None:
    assert set(EXAMPLES) == set(SIGNATURES)
    assert len(SIGNATURES) == len(ROWS)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.id)
class TestRow:
    def test_its_line_matches(self, row: Signature) -> None:
        assert row.id in ids_in(EXAMPLES[row.id][0])

    def test_its_near_miss_does_not(self, row: Signature) -> None:
        assert row.id not in ids_in(EXAMPLES[row.id][1])

    def test_the_prefilter_keeps_its_line(self, row: Signature) -> None:
        line = EXAMPLES[row.id][0].encode()
        assert candidates(line) == [0]
        assert candidates(b"\n".join((b"nothing here", line, b"INFO:     nothing"))) == [1]

    def test_its_needle_is_found_by_the_prefilter(self, row: Signature) -> None:
        assert any(needle in row.needle for needle in NEEDLES)


def test_no_needle_is_without_a_row() -> None:
    for needle in NEEDLES:
        assert any(needle in row.needle for row in ROWS), needle


def test_quiet_rows_begin_as_the_prefilter_expects() -> None:
    for row in ROWS:
        is_quiet = row.quiet and (row.mark is not None or row.facts is not None)
        if is_quiet and row.scope is not Scope.SYSTEM and row.id not in BY_DEVICE:
            start = row.pattern.replace("\\", "")[:9]
            assert any(
                known.startswith(start[:9]) or start.startswith(known[:9]) for known in QUIET_STARTS
            ), row.id


@pytest.mark.parametrize("device", ["CPU", "GPU", "HPU", "NPU", "TPU", "XPU", "GPU + host"])
def test_the_prefilter_knows_the_device_that_a_cache_is_on(device: str) -> None:
    line = f"INFO 11-29 20:49:58 [kv_cache_utils.py:2327] {device} KV cache size: 4,128 tokens"
    assert candidates(line.encode()) == [0]
    assert ids_in(line) == ["kv_cache_size"]


def test_the_signals_that_can_be_exported_stay_within_the_series_budget() -> None:
    assert len({row.signal for row in ROWS if row.scope in LIVE_SCOPES}) <= MOST_LIVE_SIGNALS


def test_a_signal_speaks_for_one_cause_only() -> None:
    causes: dict[str, set[Cause | None]] = {}
    for row in ROWS:
        causes.setdefault(row.signal, set()).add(row.cause)
    assert {signal: found for signal, found in causes.items() if len(found) > 1} == {}


def test_every_cause_has_a_kind_but_for_kills_whose_limit_is_named_elsewhere() -> None:
    for row in ROWS:
        if row.cause is not None and row.kind is None:
            assert row.scope is Scope.SYSTEM, KIND_IN_NEIGHBOURS
            assert row.cause is Cause.HOST_OOM, KIND_IN_NEIGHBOURS


def test_a_refusal_to_start_and_a_failed_allocation_share_no_signal() -> None:
    refusals = {row.signal for row in ROWS if row.kind is Kind.CAPACITY_REJECTION}
    failures = {row.signal for row in ROWS if row.kind is Kind.ALLOCATION_FAILURE}
    assert refusals
    assert failures
    assert not refusals & failures


def test_facts_speak_for_no_cause_and_are_no_signal_of_their_own() -> None:
    facts = [row for row in ROWS if row.facts is not None]
    assert {row.facts for row in facts} == set(Facts)
    assert all(row.cause is None and row.weight is Weight.SUPPORT and row.quiet for row in facts)
    assert {row.signal for row in facts} == {Mark.STARTING.value}


def test_marks_speak_for_no_cause_and_every_mark_can_be_seen() -> None:
    marked = [row for row in ROWS if row.mark is not None]
    assert {row.mark for row in marked} == set(Mark)
    assert all(row.cause is None and row.weight is Weight.SUPPORT for row in marked)


def test_what_follows_from_a_death_is_never_a_root() -> None:
    for name in ("engine_dead_error", "engine_start_failed", "engine_process_died"):
        assert SIGNATURES[name].weight is Weight.CONSEQUENCE
