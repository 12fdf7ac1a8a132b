/* Preloaded into user-mode Linux, so that it runs on processors with AVX-512 or AMX.
 *
 * It saves and restores 832 bytes of extended state of its guest, while the kernel below accepts
 * only the whole of it (fpu/regset.c, xstateregs_set: EFAULT). What it leaves out is put back as it
 * is in the guest's process at that moment.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/types.h>
#include <sys/uio.h>

enum { XSTATE = 0x202, HEADER = 512, EXTENDED = 576, KNOWN = 0x7 };

typedef long (*ptrace_call)(int, pid_t, void *, void *);

long ptrace(enum __ptrace_request request, ...)
{
    static ptrace_call next;
    static char whole[65536];
    __builtin_va_list list;
    __builtin_va_start(list, request);
    pid_t pid = __builtin_va_arg(list, pid_t);
    void *address = __builtin_va_arg(list, void *);
    void *data = __builtin_va_arg(list, void *);
    __builtin_va_end(list);

    if (!next)
        next = (ptrace_call)dlsym(RTLD_NEXT, "ptrace");
    if (request != PTRACE_SETREGSET || (uintptr_t)address != XSTATE)
        return next(request, pid, address, data);

    const struct iovec *part = data;
    struct iovec all = {whole, sizeof whole};
    long failed = next(PTRACE_GETREGSET, pid, address, &all);
    if (failed || part->iov_len >= all.iov_len || part->iov_len < EXTENDED)
        return next(request, pid, address, data);

    uint64_t here, saved;
    memcpy(&here, whole + HEADER, sizeof here);
    memcpy(&saved, (char *)part->iov_base + HEADER, sizeof saved);
    here = (here & ~(uint64_t)KNOWN) | (saved & KNOWN);
    memcpy(whole, part->iov_base, HEADER);
    memcpy(whole + HEADER, &here, sizeof here);
    memcpy(whole + EXTENDED, (char *)part->iov_base + EXTENDED, part->iov_len - EXTENDED);
    return next(request, pid, address, &all);
}
