/* A stand-in for libnvidia-ml.so.1, driven by the text file $FAKE_NVML_STATE, which every call reads
 * anew. One "key value" a line:
 *   count N | driver TEXT | gpuI.{total,used,reserved,util,mig} N
 *   gpuI.{procs,graphics,mps} PID:BYTES,PID:-1
 *   gpuI.instances N     MIG devices; gpuI.migJ.{total,used,reserved,procs,fail} as of a GPU
 *   fail.FUNCTION CODE   return this nvmlReturn_t
 *   hang_ms.FUNCTION N   wait first
 * -DDRIVER=N leaves out what drivers before release N lack: 510 brought v3 of the lists and v2 of the
 * memory, 460 v2 of the lists. -DSTEADY reads the file once: then a call costs next to nothing.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { OK = 0, UNINITIALIZED = 1, INVALID = 2, UNSUPPORTED = 3, NOT_FOUND = 6, TOO_SMALL = 7, WRONG_VERSION = 25 };
enum { MOST = 8, INSTANCES = 7 };

struct gpu { unsigned index; int instance; };
struct memory { unsigned long long total, free, used; };
struct memory_v2 { unsigned version; unsigned long long total, reserved, free, used; };
struct rates { unsigned gpu, memory; };
struct process { unsigned pid; unsigned long long used; unsigned instance, compute; };

#ifndef DRIVER
#define DRIVER 550
#endif

static struct gpu gpus[MOST];
static struct gpu instances[MOST][INSTANCES];
static int users;

static FILE *state_file(void)
{
    const char *path = getenv("FAKE_NVML_STATE");
    FILE *file;
#ifdef STEADY
    static char kept[8192];
    static size_t size;
    if (size == 0 && path && (file = fopen(path, "r"))) {
        size = fread(kept, 1, sizeof kept, file);
        fclose(file);
    }
    file = size ? fmemopen(kept, size, "r") : NULL;
#else
    file = path ? fopen(path, "r") : NULL;
#endif
    return file;
}

static int text(const char *key, char *out, size_t size)
{
    FILE *state = state_file();
    char line[1024];
    int found = 0;
    while (state && fgets(line, sizeof line, state)) {
        size_t length = strlen(key);
        if (strncmp(line, key, length) == 0 && line[length] == ' ') {
            line[strcspn(line, "\n")] = '\0';
            snprintf(out, size, "%s", line + length + 1);
            found = 1;
        }
    }
    if (state)
        fclose(state);
    return found;
}

static long long number(const char *key, long long otherwise)
{
    char value[64];
    return text(key, value, sizeof value) ? atoll(value) : otherwise;
}

static void name_key(const struct gpu *gpu, const char *key, char *full, size_t size)
{
    if (gpu->instance < 0)
        snprintf(full, size, "gpu%u.%s", gpu->index, key);
    else
        snprintf(full, size, "gpu%u.mig%d.%s", gpu->index, gpu->instance, key);
}

static long long of_gpu(const struct gpu *gpu, const char *key, long long otherwise)
{
    char full[64];
    name_key(gpu, key, full, sizeof full);
    return number(full, otherwise);
}

static int begin(const char *function)
{
    char key[128];
    snprintf(key, sizeof key, "hang_ms.%s", function);
    long long hang_ms = number(key, 0);
    if (hang_ms)
        usleep((useconds_t)(hang_ms * 1000));
    snprintf(key, sizeof key, "fail.%s", function);
    return (int)number(key, OK);
}

#define BEGIN                                \
    do {                                     \
        int failure = begin(__func__);       \
        if (failure) return failure;         \
        if (!users) return UNINITIALIZED;    \
    } while (0)

int nvmlInitWithFlags(unsigned flags)
{
    int failure = begin(__func__);
    (void)flags;
    users += !failure;
    return failure;
}
int nvmlShutdown(void) { BEGIN; users--; return OK; }
const char *nvmlErrorString(int code) { (void)code; return "as the test wanted"; }

int nvmlSystemGetDriverVersion(char *out, unsigned size)
{
    BEGIN;
    if (!text("driver", out, size)) snprintf(out, size, "550.54.15");
    return OK;
}
int nvmlDeviceGetCount_v2(unsigned *count) { BEGIN; *count = (unsigned)number("count", 1); return OK; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, struct gpu **gpu)
{
    BEGIN;
    if (index >= MOST || index >= number("count", 1)) return INVALID;
    gpus[index] = (struct gpu){index, -1};
    *gpu = &gpus[index];
    return (int)of_gpu(*gpu, "fail", OK);
}
int nvmlDeviceGetName(struct gpu *gpu, char *out, unsigned size)
{ BEGIN; snprintf(out, size, "Fake GPU %u", gpu->index); return OK; }
int nvmlDeviceGetUUID(struct gpu *gpu, char *out, unsigned size)
{ BEGIN; snprintf(out, size, "GPU-%08u", gpu->index); return OK; }
int nvmlDeviceGetMemoryInfo(struct gpu *gpu, struct memory *out)
{
    BEGIN;
    out->total = (unsigned long long)of_gpu(gpu, "total", 1000);
    out->used = (unsigned long long)(of_gpu(gpu, "used", 0) + of_gpu(gpu, "reserved", 0));
    out->free = out->total - out->used;
    return OK;
}
int nvmlDeviceGetUtilizationRates(struct gpu *gpu, struct rates *out)
{ BEGIN; out->gpu = (unsigned)of_gpu(gpu, "util", 0); out->memory = 0; return OK; }
int nvmlDeviceGetMigMode(struct gpu *gpu, unsigned *now, unsigned *later)
{
    BEGIN;
    long long mode = of_gpu(gpu, "mig", -1);
    if (mode < 0) return UNSUPPORTED;
    *now = *later = (unsigned)mode;
    return OK;
}

int nvmlDeviceGetMaxMigDeviceCount(struct gpu *gpu, unsigned *count)
{ BEGIN; (void)gpu; *count = INSTANCES; return OK; }
int nvmlDeviceGetMigDeviceHandleByIndex(struct gpu *gpu, unsigned number_, struct gpu **out)
{
    BEGIN;
    if (number_ >= INSTANCES || number_ >= of_gpu(gpu, "instances", 0)) return NOT_FOUND;
    *out = &instances[gpu->index][number_];
    **out = (struct gpu){gpu->index, (int)number_};
    return (int)of_gpu(*out, "fail", OK);
}

#if DRIVER >= 460
static int processes(struct gpu *gpu, const char *kind, unsigned *count, struct process *out)
{
    char key[64], list[1024], *rest = NULL;
    unsigned room = *count, found = 0;
    name_key(gpu, kind, key, sizeof key);
    if (text(key, list, sizeof list))
        for (char *one = strtok_r(list, ",", &rest); one; one = strtok_r(NULL, ",", &rest)) {
            char *colon = strchr(one, ':');
            if (out && found < room)
                out[found] = (struct process){(unsigned)atoi(one),
                                              (unsigned long long)(colon ? atoll(colon + 1) : 0), ~0u, ~0u};
            found++;
        }
    *count = found;
    return found > room ? TOO_SMALL : OK;
}
int nvmlDeviceGetComputeRunningProcesses_v2(struct gpu *gpu, unsigned *count, struct process *out)
{ BEGIN; return processes(gpu, "procs", count, out); }
int nvmlDeviceGetGraphicsRunningProcesses_v2(struct gpu *gpu, unsigned *count, struct process *out)
{ BEGIN; return processes(gpu, "graphics", count, out); }
#endif

#if DRIVER >= 510
int nvmlDeviceGetComputeRunningProcesses_v3(struct gpu *gpu, unsigned *count, struct process *out)
{ BEGIN; return processes(gpu, "procs", count, out); }
int nvmlDeviceGetGraphicsRunningProcesses_v3(struct gpu *gpu, unsigned *count, struct process *out)
{ BEGIN; return processes(gpu, "graphics", count, out); }
int nvmlDeviceGetMPSComputeRunningProcesses_v3(struct gpu *gpu, unsigned *count, struct process *out)
{ BEGIN; return processes(gpu, "mps", count, out); }
int nvmlDeviceGetMemoryInfo_v2(struct gpu *gpu, struct memory_v2 *out)
{
    BEGIN;
    if (out->version != (sizeof *out | 2u << 24)) return WRONG_VERSION;
    out->total = (unsigned long long)of_gpu(gpu, "total", 1000);
    out->reserved = (unsigned long long)of_gpu(gpu, "reserved", 0);
    out->used = (unsigned long long)of_gpu(gpu, "used", 0);
    out->free = out->total - out->used - out->reserved;
    return OK;
}
#endif
