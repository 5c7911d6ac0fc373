/* Records every call of a program that was compiled with -finstrument-functions, without a change to its sources.
 *
 *     cc -shared -fPIC -O2 -I bindings/c bindings/c/thalweg_instrument.c -o libthalweg_instrument.so
 *     cc -finstrument-functions … -o program …
 *     LD_PRELOAD=./libthalweg_instrument.so ./program
 *     thalweg calls --tree
 *
 * Functions are recorded by their addresses. The addresses at which files are mapped are written into the
 * space's catalog, at the first call and after each dlopen(), so `thalweg calls` finds the names in the
 * files' symbols. `thalweg set 'probe/instrumented functions.on' 0` switches the recording of all functions
 * off. */
#define _GNU_SOURCE
#include <dlfcn.h>

#include "thalweg_probe.h"

#define QUIET __attribute__((no_instrument_function))
#define FRAMES 8192

static struct thalweg_operation all = {&thalweg_is_on, 0, 0, "instrumented functions", "", "switch"};
/* How many times this process has written its mappings, and how many times it has to. */
static uint32_t mapped, wanted = 1;
static uint32_t mapped_pid;

/* Appends the place of each file that is mapped to be executed. */
QUIET static void write_mappings(void)
{
    char chunk[4096], line[4400], range[64];
    size_t have = 0;
    uint64_t signals, begin, end, offset;
    long count;
    int file, at;
    if (!thalweg_enter_cold(&signals))
        return;
    file = thalweg_open_file("/proc/self/maps", O_RDONLY);
    while (file >= 0 && (count = syscall(SYS_read, (long)file, chunk, (long)sizeof chunk)) > 0) {
        for (at = 0; at < count; at++) {
            char *path;
            if (chunk[at] != '\n') {
                if (have + 1 < sizeof line)
                    line[have++] = chunk[at];
                continue;
            }
            line[have] = 0;
            have = 0;
            begin = strtoull(line, NULL, 16);
            path = strchr(line, '/');
            if (!path || !strchr(line, '-') || !strstr(line, " r-xp "))
                continue;
            end = strtoull(strchr(line, '-') + 1, NULL, 16);
            offset = strtoull(strstr(line, " r-xp ") + 6, NULL, 16);
            snprintf(range, sizeof range, "%llx-%llx %llx", (unsigned long long)begin, (unsigned long long)end,
                     (unsigned long long)offset);
            {
                size_t record = thalweg_begin_record(1);
                uint32_t id = thalweg_process.sites + 1;
                thalweg_record_u64(id);
                thalweg_record_u64(0);
                thalweg_record_u32(0);
                thalweg_record_u32(0);
                thalweg_record_text(range, 64);
                thalweg_record_text("mapping", 16);
                thalweg_record_text(path, 4096);
                thalweg_seal_record(record, THALWEG_CATALOG_SITE);
                if (thalweg_append_own())
                    thalweg_process.sites = id;
            }
        }
    }
    if (file >= 0)
        syscall(SYS_close, (long)file);
    thalweg_leave_cold(&signals);
}

/* The calling thread with its element; NULL if nothing is to be recorded. */
QUIET static struct thalweg_thread *ready(void)
{
    struct thalweg_thread *thread;
    if (!*__atomic_load_n(&all.on, __ATOMIC_RELAXED))
        return NULL;
    thread = thalweg_thread_here();
    if (!thread)
        return NULL;
    if (all.id == 0 && !thalweg_declare_operation(&all))
        return NULL;
    if (!thread->frames)
        thread->frames = (struct thalweg_frame *)thalweg_memory(FRAMES * sizeof *thread->frames);
    if (__atomic_load_n(&mapped, __ATOMIC_ACQUIRE) != __atomic_load_n(&wanted, __ATOMIC_ACQUIRE) ||
        mapped_pid != thalweg_process.pid) {
        __atomic_store_n(&mapped, __atomic_load_n(&wanted, __ATOMIC_ACQUIRE), __ATOMIC_RELEASE);
        mapped_pid = thalweg_process.pid;
        write_mappings();
    }
    return thread->frames ? thread : NULL;
}

QUIET void __cyg_profile_func_enter(void *function, void *from)
{
    struct thalweg_thread *thread = thalweg_current;
    (void)from;
    if (!thread || !thread->frames || mapped != wanted || mapped_pid != thalweg_process.pid ||
        !*__atomic_load_n(&all.on, __ATOMIC_RELAXED)) {
        thread = ready();
        if (!thread)
            return;
    }
    if (thread->frame_count >= FRAMES) {
        thread->frames_lost++;
        return;
    }
    if (thread->depth == 0) {
        const uint64_t *sample = thalweg_process.sample;
        if (sample && *sample > 1 && !thread->muted)
            thalweg_begin_trace(thread, *sample);
    }
    thread->frames[thread->frame_count].address = (uint64_t)(uintptr_t)function;
    thread->frames[thread->frame_count].entry = thread->muted ? 0 : thalweg_now();
    thread->frame_count++;
    thread->depth = thread->muted ? 0 : thread->frame_count;
}

QUIET void __cyg_profile_func_exit(void *function, void *from)
{
    struct thalweg_thread *thread = thalweg_current;
    uint32_t at;
    uint64_t now;
    (void)from;
    if (!thread || thread->frame_count == 0)
        return;
    if (thread->frames_lost) {
        thread->frames_lost--;
        thalweg_count_lost(1);
        return;
    }
    /* longjmp() left the frames above that of `function`, so these calls have no end. A function without a
       frame was entered while recording was off. */
    for (at = thread->frame_count; at > 0 && thread->frames[at - 1].address != (uint64_t)(uintptr_t)function; at--)
        ;
    if (at == 0)
        return;
    at--;
    thread->frame_count = at;
    now = thalweg_now();
    if (thread->frames[at].entry) {
        thread->depth = at;
        thalweg_emit_probe_called_address_at(thread, now, thread->frames[at].address, now - thread->frames[at].entry, thalweg_depth(at),
                                             THALWEG_RETURNED);
    } else if (at == 0) {
        thread->muted = 0;
    }
}

QUIET void *dlopen(const char *path, int mode)
{
    void *(*real)(const char *, int);
    void *handle;
    *(void **)&real = dlsym(RTLD_NEXT, "dlopen");
    handle = real(path, mode);
    __atomic_fetch_add(&wanted, 1, __ATOMIC_RELEASE);
    return handle;
}
