"""Lines beside vLLM's log: Ray, the kernel, systemd, kubelet, containerd, docker."""

from sidecar.catalog.signatures.row import (
    ALLOCATION,
    PIN_MEMORY_FRAME,
    SERVER_STOPPING,
    SUSPECTED,
    Mark,
    Scope,
    Signature,
    aftermath,
    failed,
    marked,
)
from sidecar.model.evidence import Weight
from sidecar.model.vocabulary import Cause, Confidence, Kind


def _ray(name: str, needle: str, pattern: str) -> Signature:
    return Signature(
        id=name,
        signal="ray_memory_monitor",
        scope=Scope.RAY,
        needle=needle,
        pattern=pattern,
        cause=Cause.HOST_OOM,
        kind=Kind.USERSPACE,
    )


_RAY_EXIT = (
    r"(?:Reporting worker exit|A worker died or was killed|The actor (?:is dead|died)|The worker died"
    r"|Worker exit type: )[\w ,.:;=()`*/-]{0,1000}?"
)
"""How Ray's account of a lost worker begins, up to one of its fields."""

_RAY = (
    _ray(
        "ray_workers_killed",
        "memory pressure (OOM)",
        r"(?P<amount>[1-9]\d{0,8}) Workers? \(tasks / ?actors\) killed due to memory pressure",
    ),
    _ray(
        "ray_task_killed",
        "running low on memory",
        r"(?:The )?(?:[Tt]asks?|[Aa]ctors?|[Ww]orkers?)\b[^'\"]{0,160}? (?:was|were) killed"
        r" due to the node running low on memory",
    ),
    _ray(
        "ray_node_memory",
        "emory on the node (IP: ",
        r"Memory on the node \(IP: .{1,160}? where the (?:task|actor|lease|worker)\b.{1,400}?"
        r"(?:exceeds the memory usage threshold|was running was)",
    ),
    _ray(
        "ray_worker_chosen",
        "memory",
        r"Killing (?:worker|task|the worker)\b.{0,160} (?:due to|because of|to free) (?:\w+ ){0,4}memory",
    ),
    _ray(
        "ray_exit_type",
        "NODE_OUT_OF_MEMORY",
        rf"(?:{_RAY_EXIT}|[\w ,.()-]{{0,60}}?)(?:Worker exit type: |exit_?type ?[=:] ?)"
        r"NODE_OUT_OF_MEMORY\b",
    ),
    _ray(
        "ray_exit_detail",
        "running low on memory",
        rf"(?:{_RAY_EXIT})?(?:Worker exit detail: |exit_?detail ?[=:] ?)(?:The )?"
        r"(?:[Tt]ask|[Aa]ctor|[Ww]orker) was killed due to the node running low on memory",
    ),
    _ray(
        "ray_system_memory_low",
        "System memory low",
        r"System memory low at node .{0,300}?exceeds threshold [\d.]{1,12}, killing ",
    ),
    _ray(
        "ray_kill_details",
        "kill details: ",
        r"Killing [1-9]\d{0,4} workers?(?:\(s\))?, kill details: [^'\"]{0,600}?memory",
    ),
    _ray("ray_node_nearly_full", "of the memory on", r"More than \d+% of the memory on node "),
    aftermath(
        "ray_actor_died",
        "died",
        r"(?:The actor (?:died|is dead because)\b|ActorDiedError\b)",
        signal="ray_worker_lost",
        scope=Scope.RAY,
    ),
    aftermath(
        "ray_worker_died",
        "worker died or was killed",
        r"A worker died or was killed (?:while executing|by an unexpected)",
        signal="ray_worker_lost",
        scope=Scope.RAY,
    ),
)


def _system(
    name: str,
    needle: str,
    pattern: str,
    *,
    signal: str,
    kind: Kind | None,
    weight: Weight = Weight.ROOT,
    confidence: Confidence = Confidence.CONFIRMED,
) -> Signature:
    return Signature(
        id=name,
        signal=signal,
        scope=Scope.SYSTEM,
        needle=needle,
        pattern=pattern,
        cause=Cause.HOST_OOM,
        kind=kind,
        weight=weight,
        confidence=confidence,
    )


_EVENT = (
    r"(?:[a-z0-9][a-z0-9-]{0,40} +)?(?:(?:\d+[smhd]){1,3}(?: \(x\d+ over \w+\))? +)?"
    r"(?:Warning|Normal) +"
)

_KERNEL = (
    _system(
        "kernel_summary_cgroup",
        "oom-kill:constraint=",
        r"oom-kill:constraint=CONSTRAINT_MEMCG\b(?:.*,pid=(?P<pid>\d{1,10}))?",
        signal="kernel_kill",
        kind=Kind.CGROUP,
    ),
    _system(
        "kernel_summary_system",
        "oom-kill:constraint=",
        r"oom-kill:constraint=CONSTRAINT_(?!MEMCG\b)\w+(?:.*,pid=(?P<pid>\d{1,10}))?",
        signal="kernel_kill",
        kind=Kind.SYSTEM,
    ),
    _system(
        "kernel_killed_cgroup",
        "emory cgroup out of memory",
        r"Memory cgroup out of memory[^:]{0,40}: Kill(?:ed)? process (?P<pid>\d{1,10})\b",
        signal="kernel_kill",
        kind=Kind.CGROUP,
    ),
    _system(
        "kernel_killed_system",
        "ut of memory",
        r"Out of memory(?: \([^)]{1,40}\))?[^:]{0,40}: Kill(?:ed)? process (?P<pid>\d{1,10})\b",
        signal="kernel_kill",
        kind=Kind.SYSTEM,
    ),
    _system(
        "kernel_killed_bare",
        "Killed process ",
        r"Killed process (?P<pid>\d{1,10}),? (?:\(|UID \d+,? \().{1,40}?\),? ?"
        r"(?:UID:? ?\d+,? ?)?total-vm:",
        signal="kernel_kill",
        kind=None,
    ),
    _system(
        "kernel_task_killed_by_limit",
        "killed as a result of limit",
        r"Task in \S+ killed as a result of limit of ",
        signal="kernel_oom_block",
        kind=Kind.CGROUP,
    ),
    _system(
        "kernel_group_kill",
        "memory.oom.group",
        r"Tasks in \S+ are going to be killed due to memory\.oom\.group set",
        signal="kernel_oom_block",
        kind=Kind.CGROUP,
    ),
    _system(
        "kernel_oom_invoked",
        "invoked oom-killer",
        r"\S.{0,15}? invoked oom-killer: ",
        signal="kernel_oom_block",
        kind=None,
    ),
    _system(
        "kernel_memcg_usage",
        ", failcnt",
        r"(?:memory|memory\+swap|swap|kmem): usage \d+kB, limit \d+kB, failcnt ",
        signal="kernel_oom_block",
        kind=Kind.CGROUP,
    ),
    _system(
        "kernel_memcg_stats",
        "emory cgroup stats for",
        r"Memory cgroup stats(?: for \S{1,1000})?:",
        signal="kernel_oom_block",
        kind=Kind.CGROUP,
    ),
    _system(
        "kernel_reaped",
        "oom_reaper: reaped",
        r"oom_reaper: reaped process (?P<pid>\d{1,10})\b",
        signal="kernel_kill",
        kind=None,
    ),
    _system(
        "kernel_victim_exiting",
        "OOM victim",
        r"(?:Memory cgroup o|O)ut of memory: OOM victim (?P<pid>\d{1,10})\b",
        signal="kernel_oom_block",
        kind=None,
    ),
    _system(
        "kernel_task_table",
        "total_vm",
        r"\[ *pid *\] +uid +tgid +total_vm ",
        signal="kernel_oom_block",
        kind=None,
    ),
    _system(
        "kernel_nothing_to_kill",
        "no killable processes",
        r"(?:Memory cgroup out of memory|Out of memory|Kernel panic.{0,60}).{0,40}"
        r"no killable processes",
        signal="kernel_oom_block",
        kind=Kind.SYSTEM,
    ),
    _system(
        "kernel_allocation_failure",
        "page allocation failure",
        r"\S.{0,15}?: page allocation failure",
        signal="kernel_allocation_failed",
        kind=ALLOCATION,
        weight=Weight.SUPPORT,
        confidence=SUSPECTED,
    ),
    _system(
        "kernel_memcg_frame",
        "mem_cgroup_",
        r"(?:\[<[0-9a-f]+>\] )?\??\s*(?:__)?mem_cgroup_(?:oom|out_of_memory|try_charge)\w*\+0x",
        signal="kernel_memcg_frame",
        kind=Kind.CGROUP,
        weight=Weight.SUPPORT,
    ),
    _system(
        "kernel_charge_frame",
        "charge_memcg+0x",
        r"\??\s*try_charge_memcg\+0x",
        signal="kernel_memcg_frame",
        kind=Kind.CGROUP,
        weight=Weight.SUPPORT,
    ),
)

_INIT = (
    _system(
        "systemd_unit_oom_killed",
        "by the OOM killer",
        r"[\w@.\\-]+: A process of this unit has been killed by the OOM killer",
        signal="unit_oom_killed",
        kind=None,
    ),
    _system(
        "systemd_unit_oom_some",
        "OOM killer killed some",
        r"[\w@.\\-]+: The kernel OOM killer killed some processes in this unit",
        signal="unit_oom_killed",
        kind=None,
    ),
    _system(
        "systemd_result_oom",
        "oom-kill",
        r"(?:[\w@.\\-]+: Failed with result 'oom-kill'|Result=oom-kill\b"
        r"|Active: failed \(Result: oom-kill\))",
        signal="unit_oom_killed",
        kind=None,
    ),
    _system(
        "oomd_killed",
        "Killed /",
        r"Killed /\S+ due to (?:memory|swap)\b",
        signal="userspace_kill",
        kind=Kind.USERSPACE,
    ),
    _system(
        "oomd_killed_unit",
        "systemd-oomd killed",
        r"[\w@.\\-]+: systemd-oomd killed [1-9]\d* process",
        signal="userspace_kill",
        kind=Kind.USERSPACE,
    ),
    _system(
        "earlyoom_killed",
        "sending SIG",
        r"sending SIG(?:TERM|KILL) to process (?P<pid>\d{1,10}) .{0,120}VmRSS",
        signal="userspace_kill",
        kind=Kind.USERSPACE,
    ),
    _system(
        "slurm_oom_killed",
        "oom",
        r"(?:slurmstepd(?:-\S{1,64})?: )?(?:error: )?Detected [1-9]\d* oom[-_]kill event",
        signal="kernel_kill",
        kind=Kind.CGROUP,
    ),
    _system(
        "batch_memory_limit",
        "emory",
        r"(?:TERM_MEMLIMIT: job killed|srun: error: \S+: tasks? [\d,-]+: Out Of Memory"
        r"|Memory limit of [\d.]+ ?\w+ exceeded with "
        r"|(?:slurmstepd(?:-\S{1,64})?: )?(?:error: )?(?:Exceeded (?:job|step) memory limit"
        r"|(?:Step|Job|StepId=|JobId=) ?[\d.]+\w* exceeded memory limit)"
        r"|.{0,60}?Job has gone over memory limit of |.{0,60}?[Mm]emory usage exceeded request_memory"
        r"|Container \[pid=\d+,containerID=\w+\] is running .{0,60}?beyond physical memory limits"
        r"|Memory limit exceeded: Requested: "
        r"|Error R15 \(Memory quota vastly exceeded\)|Ran out of memory \(used over )",
        signal="userspace_kill",
        kind=Kind.USERSPACE,
    ),
)

_BATCH = (
    _system(
        "batch_state_out_of_memory",
        "OUT_OF_ME",
        r"(?:State: OUT_OF_MEMORY \(exit code|[\w.]{1,40} +(?:[\w.-]{1,40} +){1,6}OUT_OF_ME(?:\+|MORY)"
        r" +\d+:\d+)",
        signal="userspace_kill",
        kind=Kind.USERSPACE,
    ),
    _system(
        "batch_job_killed",
        "job killed: ",
        r"(?:=>> )?PBS: job killed: p?v?mem ",
        signal="userspace_kill",
        kind=Kind.USERSPACE,
    ),
)

_CONTAINERS = (
    _system(
        "pod_reason_oom_killed",
        "OOMKilled",
        r"(?:(?:(?:Last )?State: .{0,40}?)?[Rr]eason: *['\"]?OOMKilled\b|\"reason\": ?\"OOMKilled\""
        r"|(?:[\w.-]{1,60}: )?OOMKilled \(exit code 137\)|(?:OOMKilled|['\"]OOMKilled['\"])\s*$)",
        signal="container_oom_killed",
        kind=Kind.CGROUP,
    ),
    _system(
        "pod_json_oom_killed",
        "OOMKilled",
        r"(?:map\[|\{)\"?(?:terminated|state|lastState|containerID|containerStatuses|apiVersion"
        r"|exitCode|kind|metadata|name|status)\b.{0,4000}?\"?[rR]eason\"?: ?\"?OOMKilled\b",
        signal="container_oom_killed",
        kind=Kind.CGROUP,
    ),
    _system(
        "pod_status_oom_killed",
        "OOMKilled",
        r"(?:[a-z0-9][\w./-]{0,120} +){1,2}\d+/\d+ +(?:Init:)?OOMKilled\b",
        signal="container_oom_killed",
        kind=Kind.CGROUP,
    ),
    _system(
        "inspect_oom_killed",
        "OOMKilled",
        r"(?:(?:\"State\": ?)?\{\"Status\".{0,300}?)?\"?OOMKilled\"?[:=] ?true\b",
        signal="container_oom_killed",
        kind=Kind.CGROUP,
    ),
    _system(
        "inspect_oom_short",
        "oom",
        r"(?:[\w./-]{1,80} )?oom(?:[-_]?killed)?[=:] ?true\b",
        signal="container_oom_killed",
        kind=Kind.CGROUP,
    ),
    _system(
        "node_event_cgroup_oom",
        "OOM",
        rf"{_EVENT}(?:CgroupOOM|TaskOOM|OOMKilled|ContainerOOM)\b",
        signal="container_oom_killed",
        kind=Kind.CGROUP,
    ),
    _system(
        "node_event_kill_cgroup",
        "OOMKilling",
        rf"{_EVENT}OOMKilling\b.{{0,160}}?Memory cgroup out of memory",
        signal="kernel_kill",
        kind=Kind.CGROUP,
    ),
    _system(
        "node_reason_kill",
        "OOMKilling",
        r"(?:[Rr]eason: *)?OOMKilling\s*$",
        signal="kernel_kill",
        kind=None,
    ),
    _system(
        "node_event_kill_system",
        "OOM",
        rf"{_EVENT}(?:OOMKilling|SystemOOM)\b",
        signal="kernel_kill",
        kind=Kind.SYSTEM,
    ),
    _system(
        "kubelet_system_oom",
        "ystem OOM",
        r"(?:System OOM encountered|Got sys oom event)",
        signal="kernel_kill",
        kind=Kind.SYSTEM,
    ),
    _system(
        "kubelet_evicted_memory",
        "memory",
        r"(?:(?:[Mm]essage|Status): *['\"]?)?(?:Pod )?(?:was (?:rejected|evicted): )?"
        r"The node was low on resource: memory\b",
        signal="pod_evicted_memory",
        kind=Kind.USERSPACE,
    ),
    _system(
        "kubelet_evicted_event",
        "memory",
        rf"{_EVENT}Evicted\b.{{0,120}}?(?:low on resource: memory\b|memory pressure|MemoryPressure)",
        signal="pod_evicted_memory",
        kind=Kind.USERSPACE,
    ),
    _system(
        "kubelet_memory_pressure",
        "MemoryPressure",
        r"(?:(?:[Mm]essage|Status): *['\"]?)?(?:Pod )?(?:was (?:rejected|evicted): )?"
        r"The node had condition: \[MemoryPressure\]",
        signal="pod_evicted_memory",
        kind=Kind.USERSPACE,
    ),
    _system(
        "kubelet_reclaims_memory",
        "viction manager",
        r"\"?[Ee]viction manager: (?:attempting to reclaim\"? resourceName=\"memory\""
        r"|must evict pod\(s\) to reclaim memory|attempting to reclaim memory)",
        signal="pod_evicted_memory",
        kind=Kind.USERSPACE,
        confidence=SUSPECTED,
    ),
    _system(
        "containerd_task_oom",
        "oom",
        r"time=\"[^\"]{1,40}\" level=\w+ msg=.{0,200}topic=\"?/tasks/oom\b",
        signal="container_oom_event",
        kind=Kind.CGROUP,
    ),
    _system(
        "containerd_task_oom_event",
        "TaskOOM",
        r"(?:time=\"[^\"]{1,40}\" level=\w+ msg=\")?(?:received )?(?:event )?TaskOOM\b",
        signal="container_oom_event",
        kind=Kind.CGROUP,
    ),
    _system(
        "docker_event_oom",
        "container oom ",
        r"container oom [0-9a-f]{8,64}\b",
        signal="container_oom_event",
        kind=Kind.CGROUP,
    ),
    _system(
        "conmon_oom",
        "OOM",
        r"(?:conmon \w+ )?(?:<\w+>: )?OOM (?:event )?received\b",
        signal="container_oom_event",
        kind=Kind.CGROUP,
    ),
    _system(
        "orchestrator_oom_killed",
        "OOM",
        r"(?:OOM Killed|(?:Terminated +)?(?:Exit Code: \d+, )?(?:Signal: \d+, )?"
        r"Exit Message: \"[^\"]{0,80}OOM [Kk]illed"
        r"|[Cc]ontainer \S+ (?:in pod \S+ )?(?:was|has been) OOM[- ]?[Kk]illed"
        r"|[Pp]rocess appears to have been OOM killed"
        r"|(?:Last )?[Tt]ermination(?: reason)?: OOMKilled)",
        signal="container_oom_killed",
        kind=Kind.CGROUP,
    ),
    _system(
        "exit_named_oom",
        "xit",
        r"(?:(?:Process|Container|Task|Instance|Pod|Job|App)\b[^'\"]{0,160}? |APP/PROC/\S{1,40} "
        r"|[\w./-]{1,80} )?[Ee]xit(?:ed)? (?:with )?(?:code|status):? \(?137\)? ?[(,:] ?"
        r"(?:reason: ?)?(?:out of memory|OOM ?-?[Kk]illed)\b",
        signal="container_oom_killed",
        kind=Kind.CGROUP,
    ),
    _system(
        "container_memory_limit",
        "memory limit",
        r"[Cc]ontainer (?:\S{1,80} )?(?:has )?exceeded (?:its |the )?memory limit",
        signal="container_oom_killed",
        kind=Kind.CGROUP,
    ),
    _system(
        "container_died_oom",
        "container died",
        r"(?:[\w.:/+-]{1,80} )?container died (?:\(oom\)|.{0,400}?\boom(?:[Kk]illed)?=true\b)",
        signal="container_oom_killed",
        kind=Kind.CGROUP,
    ),
    _system(
        "task_oom_killed",
        "OutOfMemoryError: Container killed",
        r"(?:\"reason\": ?\")?OutOfMemoryError: Container killed due to memory usage",
        signal="container_oom_killed",
        kind=Kind.CGROUP,
    ),
    Signature(
        id="controller_reports_gpu_oom",
        signal="gpu_out_of_memory",
        scope=Scope.SYSTEM,
        needle="out of memory",
        pattern=r"\"HTTP call done\" .{0,2000}?statusCode=5\d\d .{0,2000}?"
        r"Call to \w+ method failed: CUDA [Ee]rror: out of memory\b",
        cause=Cause.CUDA_OOM,
        kind=ALLOCATION,
    ),
    Signature(
        id="nvidia_driver_no_memory",
        signal="runtime_out_of_memory",
        scope=Scope.SYSTEM,
        needle="NV_ERR_NO_MEMORY",
        pattern=r"NVRM: .{0,160}?\[?NV_ERR_NO_MEMORY\]?",
        cause=Cause.CUDA_OOM,
        kind=ALLOCATION,
        confidence=SUSPECTED,
    ),
)


def _stopping(name: str, needle: str, pattern: str) -> Signature:
    # No Mark: uvicorn says the same after the engine died. It speaks only in a log read whole.
    return Signature(
        id=name,
        signal=SERVER_STOPPING,
        scope=Scope.SYSTEM,
        needle=needle,
        pattern=pattern,
        weight=Weight.SUPPORT,
        quiet=True,
    )


def _lost(name: str, needle: str, pattern: str) -> Signature:
    """A process that a launcher or supervisor lost to SIGKILL, from whomever."""
    return aftermath(
        name,
        needle,
        pattern,
        signal="process_killed",
        scope=Scope.SYSTEM,
        kind=Kind.KILLED,
        confidence=SUSPECTED,
    )


_ENDINGS = (
    failed(
        "nvidia_gpu_lost",
        "fallen off the bus",
        r"NVRM: .{0,120}fallen off the bus",
        signal="gpu_lost",
        scope=Scope.SYSTEM,
    ),
    failed(
        "nvidia_xid",
        "NVRM: Xid",
        r"NVRM: Xid \([^)]{1,40}\): (?!(?:43|45|63|92|94|154),)(?P<xid>\d{1,3}),",
        signal="gpu_xid",
        scope=Scope.SYSTEM,
        confidence=SUSPECTED,
    ),
    aftermath(
        "nvidia_xid_after",
        "NVRM: Xid",
        r"NVRM: Xid \([^)]{1,40}\): (?P<xid>43|45),",
        signal="gpu_xid",
        scope=Scope.SYSTEM,
        confidence=SUSPECTED,
    ),
    failed(
        "kernel_segfault",
        "segfault at",
        r"(?:VLLM::|python|vllm|pt_main|ray::)\S{0,16}\[\d+\]: segfault at ",
        signal="fatal_signal",
        scope=Scope.SYSTEM,
    ),
    aftermath(
        "shell_killed",
        "Killed",
        r"(?:(?:[\w./-]{1,80}: )?line \d+: +\d+ )?Killed(?: {2,}\S.{0,200}| *\(.{0,200})?\s*$",
        signal="process_killed",
        scope=Scope.SYSTEM,
        kind=Kind.KILLED,
        confidence=SUSPECTED,
    ),
    aftermath(
        "shell_crashed",
        "core dumped",
        r"(?:(?:[\w./-]{1,80}: )?line \d+: +\d+ )?(?:Segmentation fault|Aborted|Floating point exception"
        r"|Illegal instruction) +\(core dumped\)",
        signal="process_crashed",
        scope=Scope.SYSTEM,
    ),
    aftermath(
        "worker_sent_sigkill",
        "SIGKILL",
        r"Worker \(pid:\d+\) was sent SIGKILL",
        signal="process_killed",
        scope=Scope.SYSTEM,
        kind=Kind.KILLED,
        confidence=SUSPECTED,
    ),
    _lost(
        "launcher_exit_code_killed",
        "xitcode",
        r"(?:(?:\[ERROR\] )?failed \(exitcode: -9\) (?:local_rank|for binary)|exitcode *: -9\b)",
    ),
    _lost(
        "launcher_sigkill",
        "SIGKILL",
        r"(?:(?:traceback *: )?Signal 9 \(SIGKILL\) received by PID \d+"
        r"|process \d+ terminated with signal SIGKILL"
        r"|exited: \S{1,80} \(terminated by SIGKILL; not expected\)"
        r"|App \[[^\]]{1,80}\] exited with code \[\d+\] via signal \[SIGKILL\]"
        r"|Command .{1,2000} died with <Signals\.SIGKILL: 9>)",
    ),
    _lost(
        "launcher_killed",
        "Killed",
        r"(?:mpirun noticed that process rank \d+ .{1,120}? exited on signal 9 \(Killed\)"
        r"|(?:=+ *)?(?:EXIT STRING: |KILLED BY SIGNAL: 9 \()Killed\b"
        r"|srun: error: \S+: tasks? [\d,-]+: Killed|make: \*\*\* \[[^\]]{1,80}\] Killed)",
    ),
    aftermath(
        "exit_code_killed",
        "xit",
        r"(?:Exit Code: +137\b|\"?[Ee]xitCode\"?: ?137\b|exitCode=137\b"
        r"|(?:[\w./-]{1,80} )?[Ee]xited (?:with code )?\(?137\b|worker exited with exit code 137\b"
        r"|(?:Process finished with )?exit(?: code|=| status)[:=]? ?137(?=\s*(?:$|[),.;:(]))"
        r"|command terminated with exit code 137\b|task: non-zero exit \(137\)"
        r"|exited: \S{1,80} \(exit status 137; not expected\))",
        signal="process_killed",
        scope=Scope.SYSTEM,
        kind=Kind.KILLED,
        confidence=SUSPECTED,
    ),
    aftermath(
        "exit_code_crashed",
        "xit",
        r"(?:Exit Code: +|\"?[Ee]xitCode\"?: ?|exitCode=|(?:[\w./-]{1,80} )?[Ee]xited (?:with code )?\(?"
        r"|worker exited with exit code )13[469]\b",
        signal="process_crashed",
        scope=Scope.SYSTEM,
        confidence=SUSPECTED,
    ),
    aftermath(
        "systemd_main_killed",
        "Main process exited",
        r"[\w@.\\-]+: Main process exited, code=killed, status=9/KILL",
        signal="process_killed",
        scope=Scope.SYSTEM,
        kind=Kind.KILLED,
        confidence=SUSPECTED,
    ),
    aftermath(
        "systemd_main_crashed",
        "Main process exited",
        r"[\w@.\\-]+: Main process exited, code=(?:dumped|killed), status=(?:4|6|7|8|11)/",
        signal="process_crashed",
        scope=Scope.SYSTEM,
    ),
    marked(
        "systemd_starting",
        Mark.STARTING,
        "Start",
        r"Start(?:ed|ing) (?:\S*vllm\S*\.service\b|.{0,60}vLLM(?! API| server).{0,60}\.$)",
        scope=Scope.SYSTEM,
    ),
    marked(
        "systemd_stopping",
        Mark.STOP_WANTED,
        "Stopping ",
        r"Stopping (?:\S*vllm\S*\.service\b|.{0,60}vLLM(?! API| server).{0,60}\.$)",
        scope=Scope.SYSTEM,
    ),
    _stopping("uvicorn_stopping", "Shutting down", r"Shutting down\s*$"),
    _stopping("uvicorn_waiting", "application shutdown", r"Waiting for application shutdown"),
    _stopping("uvicorn_stopped", "shutdown complete", r"Application shutdown complete"),
    Signature(
        id="pin_memory_frame",
        signal=PIN_MEMORY_FRAME,
        scope=Scope.SYSTEM,
        needle="pin_memory",
        pattern=r"(?:File \".{1,200}\", line \d+, in \w*pin_memory|.{0,160}pin_memory=True"
        r"|.{0,120}\.pin_memory\(\))",
        weight=Weight.SUPPORT,
    ),
)

RAY_ROWS = _RAY
SYSTEM_ROWS = (
    *_KERNEL,
    *_INIT,
    *_BATCH,
    *_CONTAINERS,
    *_ENDINGS,
)
