/* Selects the probe that the method of moo.c has. One of these macros is defined: PROBES for our probes;
 * PAIRS for our probes with two events a call; RING for a ring in mapped memory that is written by hand;
 * CLOCK for the two readings of the clock alone; LTTNG; TRACY. Without a macro the method has no probe. */
#ifndef MOO_PROBE_H
#define MOO_PROBE_H

#if defined(PROBES)

#include "thalweg_probe.h"
#define PROBE(depth) THALWEG_PROBE()

#elif defined(PAIRS)

#include "thalweg_probe.h"
static void left(struct thalweg_call *call) { thalweg_leave(call); }
#define PROBE(depth)                                                                                                                     \
    static struct thalweg_operation operation = THALWEG_OPERATION_OF("monitored", "operation");                                          \
    struct thalweg_call call __attribute__((cleanup(left)));                                                                             \
    thalweg_enter(&call, &operation)

#elif defined(CLOCK) || defined(RING)

#if defined(__x86_64__)
static inline uint64_t ticks(void)
{
    uint32_t low, high;
    __asm__ volatile("rdtsc" : "=a"(low), "=d"(high));
    return (uint64_t)high << 32 | low;
}
#else
static inline uint64_t ticks(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}
#endif

struct call {
    uint64_t begin;
    int depth;
};

#if defined(CLOCK)

static __thread uint64_t sum;
static inline void ended(struct call *call) { sum += ticks() - call->begin; }

#else

#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

/* A record: the end of the call, its duration, its operation, and its depth. */
#define RECORDS (UINT64_C(1) << 21)
#define HEADER 4096
/* The header of the file has the number of records written, the number of records read, and the number of
 * records for which there is room; the records follow. */
static __thread uint64_t *file, written, known_read;
static int waits;

static __attribute__((noinline, cold)) void open_ring(void)
{
    static int count;
    const char *folder = getenv("THALWEG_SPACES");
    char path[4096], ready[4096];
    int number = __atomic_add_fetch(&count, 1, __ATOMIC_RELAXED), opened;
    snprintf(path, sizeof path, "%s/.ring.%d", folder ? folder : ".", number);
    snprintf(ready, sizeof ready, "%s/ring.%d", folder ? folder : ".", number);
    opened = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    if (opened < 0 || ftruncate(opened, HEADER + 24 * RECORDS)) {
        perror(path);
        exit(1);
    }
    file = (uint64_t *)mmap(NULL, HEADER + 24 * RECORDS, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, opened, 0);
    if (file == (uint64_t *)MAP_FAILED) {
        perror(path);
        exit(1);
    }
    file[16] = RECORDS;
    waits = getenv("MOO_RING_WAITS") != NULL;
    rename(path, ready);
}

static __attribute__((noinline)) void wait_for_room(void)
{
    while (written - known_read >= RECORDS) {
        known_read = __atomic_load_n(&file[8], __ATOMIC_ACQUIRE);
        if (written - known_read >= RECORDS)
            sched_yield();
    }
}

static inline void ended(struct call *call)
{
    uint64_t now = ticks(), *at;
    if (__builtin_expect(file == NULL, 0))
        open_ring();
    if (__builtin_expect(waits && written - known_read >= RECORDS, 0))
        wait_for_room();
    at = file + HEADER / 8 + 3 * (written & (RECORDS - 1));
    at[0] = now;
    at[1] = now - call->begin;
    at[2] = 1 | (uint64_t)call->depth << 32;
    __atomic_store_n(&file[0], ++written, __ATOMIC_RELEASE);
}

#endif

#define PROBE(depth) struct call call __attribute__((cleanup(ended))) = {ticks(), depth}

#elif defined(LTTNG)

#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#define LTTNG_UST_TRACEPOINT_DEFINE
#include "lttng.h"
static inline void ended(int *depth) { lttng_ust_tracepoint(moobench, leave, *depth); }
#define PROBE(depth)                                                                                                                     \
    int of __attribute__((cleanup(ended))) = depth;                                                                                      \
    lttng_ust_tracepoint(moobench, enter, of)

#elif defined(TRACY)

#if defined(__cplusplus)
#include "tracy/Tracy.hpp"
#define PROBE(depth) ZoneScoped
#else
#include "tracy/TracyC.h"
static inline void ended(TracyCZoneCtx *zone) { ___tracy_emit_zone_end(*zone); }
#define PROBE(depth)                                                                                                                     \
    static const struct ___tracy_source_location_data where = {NULL, "monitored", "moo.c", 1, 0};                                        \
    TracyCZoneCtx zone __attribute__((cleanup(ended))) = ___tracy_emit_zone_begin(&where, 1)
#endif

#else

#define PROBE(depth)

#endif

#endif
