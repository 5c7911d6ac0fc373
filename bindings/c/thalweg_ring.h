/* The element of a thread, and how an event is appended to it: the basis of thalweg_probe.h and of the
 * writers that `thalweg kinds` makes.
 *
 * Requires C11 or C++17, gcc or clang, and Linux. There is nothing to link: the state of a process is in weak
 * symbols, which the linker joins. The protocol is that of docs/layout.md: arguments and first word are
 * stored first, relaxed, then the head with release. An event takes no lock, system call or allocation,
 * except at the end of a block. */
#ifndef THALWEG_RING_H
#define THALWEG_RING_H

#ifndef __linux__
#error "thalweg_probe.h needs Linux"
#endif
#if __SIZEOF_POINTER__ != 8 || __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "thalweg_probe.h needs a little-endian machine of 64 bits"
#endif

#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "thalweg_layout.h"

#define THALWEG_HOT static inline __attribute__((always_inline, unused, no_instrument_function))
#define THALWEG_SHARED __attribute__((weak, visibility("default")))
#define THALWEG_COLD __attribute__((weak, visibility("default"), noinline, cold, no_instrument_function))
#define THALWEG_LIKELY(x) __builtin_expect(!!(x), 1)
#define THALWEG_UNLIKELY(x) __builtin_expect(!!(x), 0)

#ifdef __cplusplus
extern "C" {
#else
/* Strict C hides this declaration. */
extern int clock_gettime(int clock, struct timespec *time);
#endif

/* The most chunks of switches of a process: four million operations. */
#define THALWEG_SWITCHES_MAX 64
/* The most kinds of event of a process in C and C++. */
#define THALWEG_KINDS_MAX 512

struct thalweg_choice {
    uint64_t value;
    const char *name;
};

struct thalweg_field {
    unsigned char type;
    unsigned short choice_count;
    const char *name, *unit, *doc;
    const struct thalweg_choice *choices;
};

/* A kind of event, as described by a file that `thalweg kinds` made. */
struct thalweg_kind {
    const char *name, *doc;
    uint64_t hash;
    const struct thalweg_field *fields;
    uint32_t field_count;
    /* The number of words of the fixed part, and of the whole event; 0 if texts follow. */
    uint32_t words, event_words;
    /* The index in the process's table, from 1; 0 if it has none yet. */
    uint32_t index;
};

/* A text or byte string of an event. */
struct thalweg_tail {
    const void *bytes;
    size_t count;
};

/* An instrumented function that is being executed: for thalweg_instrument.c. */
struct thalweg_frame {
    uint64_t address, entry;
};

/* The element of a thread, and the state of the thread's calls. Written only by that thread, and by the
 * signal handlers that interrupt it. */
struct thalweg_thread {
    /* The position of the next event, and the end of the block: bytes since the start, block headers
     * included. */
    uint64_t position, end;
    /* The address that positions are relative to. */
    unsigned char *base;
    /* The number of events of the element so far, including dropped ones. */
    uint64_t sequence;
    uint64_t *head;
    /* The high half of the times that can be expressed relative to the block's base. */
    uint32_t high, last_low;
    /* Whether an event is being written: a signal handler that finds this set counts its own event as missed. */
    volatile uint32_t busy, missed;
    uint32_t accounted;
    /* The number of recorded calls that enclose this point; whether the trace of this thread is not recorded. */
    uint32_t depth, muted;
    /* The counter of the sampling; whether the next trace continues one that is not recorded. */
    uint32_t traces, skip;
    /* The trace, if it has an identity: whether it was recorded, its halves, and the span that it continues. */
    uint32_t has_trace;
    uint64_t trace_high, trace_low;
    /* The C++ runtime's counter of the thread's exceptions. */
    const unsigned *exceptions;
    /* The first words of the kinds, by their index; 0 if the kind is not declared in this element's catalog. */
    uint64_t kind_words[THALWEG_KINDS_MAX];
    /* The following fields are used only at the end of a block. */
    unsigned char *map;
    uint64_t map_bytes, block_bytes, block_count;
    uint32_t policy, tid, number, file_number, generation, stalled;
    uint64_t drops, read_position, owner_sequence;
    uint32_t kinds_declared, in_use;
    /* The time, in ticks, after which making the element is tried again. */
    uint64_t retry_at;
    uint32_t tries;
    struct thalweg_frame *frames;
    uint32_t frame_count, frames_lost;
    struct thalweg_thread *next;
};

/* The state of a process. */
struct thalweg_process {
    /* The thread that performs a rare operation (making the space, an element, an operation), or 0. */
    uint32_t lock;
    /* 0: there is no space yet; 1: there is a space; 2: there will be none. */
    uint32_t state;
    /* Whether the clock is CLOCK_MONOTONIC, and not the processor's counter. */
    uint32_t is_monotonic;
    uint32_t pid;
    uint64_t hz;
    /* The setting `probe.sample`: one of this many traces is recorded; and the number of events for which
     * there was no element. */
    uint64_t *sample, *lost;
    uint64_t no_sample, no_lost;
    unsigned char *identity, *settings;
    uint32_t writers, sites, kinds, probes, names, block_count, policy, in_session;
    uint64_t block_bytes, wait_ns;
    unsigned char *switches[THALWEG_SWITCHES_MAX];
    struct thalweg_thread *threads;
    /* A random number, and the number of spans so far, which together make spans unique. */
    uint64_t span_base, spans;
    uint64_t process_start;
    /* The bytes of the catalog, of complete records. */
    uint64_t catalog_bytes;
    uint32_t key, has_handlers, is_forked;
    char path[4096];
    char session[4096];
};

THALWEG_SHARED struct thalweg_process thalweg_process;
/* The thread's element; NULL before its first event. */
THALWEG_SHARED __thread struct thalweg_thread *thalweg_current __attribute__((tls_model("initial-exec")));

/* The thread's element, which is made if needed; NULL if it cannot be made, in which case lost events are
 * counted. */
THALWEG_COLD struct thalweg_thread *thalweg_open_thread(void);
/* Makes space for an event of this many bytes; 0 if the event was dropped and counted. */
THALWEG_COLD int thalweg_make_way(struct thalweg_thread *thread, struct thalweg_kind *kind, uint64_t bytes, uint64_t ticks);
/* Counts events as dropped that signal handlers could not write. */
THALWEG_COLD void thalweg_account(struct thalweg_thread *thread);
THALWEG_COLD void thalweg_put_tails(struct thalweg_thread *thread, struct thalweg_kind *kind, uint64_t ticks, const uint64_t *words,
                                    unsigned word_count, const struct thalweg_tail *tails, const unsigned char *lengths,
                                    unsigned tail_count);

THALWEG_HOT struct thalweg_thread *thalweg_thread_here(void)
{
    struct thalweg_thread *thread = thalweg_current;
    return THALWEG_LIKELY(thread != NULL) ? thread : thalweg_open_thread();
}

static __attribute__((unused, noinline, cold, no_instrument_function)) uint64_t thalweg_monotonic(void)
{
    struct timespec time;
    clock_gettime(1 /* monotonic */, &time);
    return (uint64_t)time.tv_sec * UINT64_C(1000000000) + (uint64_t)time.tv_nsec;
}

/* The present time, in ticks of the space's clock. */
THALWEG_HOT uint64_t thalweg_now(void)
{
#if defined(__x86_64__)
    uint32_t low, high;
    if (THALWEG_UNLIKELY(thalweg_process.is_monotonic))
        return thalweg_monotonic();
    __asm__ volatile("rdtsc" : "=a"(low), "=d"(high));
    return (uint64_t)high << 32 | low;
#else
    return thalweg_monotonic();
#endif
}

THALWEG_HOT uint64_t thalweg_bits_f64(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

THALWEG_HOT uint64_t thalweg_bits_f32(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* Appends an event of a fixed size. */
THALWEG_HOT void thalweg_put(struct thalweg_thread *thread, struct thalweg_kind *kind, uint64_t ticks, const uint64_t *words,
                             const unsigned count)
{
    uint64_t position, first, *at;
    unsigned n;
    if (THALWEG_UNLIKELY(thread->busy)) {
        thread->missed = thread->missed + 1;
        return;
    }
    thread->busy = 1;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    position = thread->position;
    first = thread->kind_words[kind->index];
    if (THALWEG_UNLIKELY(first == 0 || position + 8 * (1 + count) > thread->end || (uint32_t)(ticks >> 32) != thread->high)) {
        if (!thalweg_make_way(thread, kind, 8 * (1 + count), ticks)) {
            thread->busy = 0;
            __atomic_signal_fence(__ATOMIC_SEQ_CST);
            if (thread->missed != thread->accounted)
                thalweg_account(thread);
            return;
        }
        position = thread->position;
        first = thread->kind_words[kind->index];
    }
    at = (uint64_t *)(thread->base + position);
    for (n = 0; n < count; n++)
        __atomic_store_n(&at[1 + n], words[n], __ATOMIC_RELAXED);
    __atomic_store_n(&at[0], first | (uint32_t)ticks, __ATOMIC_RELAXED);
    thread->last_low = (uint32_t)ticks;
    thread->position = position + 8 * (1 + count);
    thread->sequence++;
    __atomic_store_n(thread->head, position + 8 * (1 + count), __ATOMIC_RELEASE);
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    thread->busy = 0;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    if (THALWEG_UNLIKELY(thread->missed != thread->accounted))
        thalweg_account(thread);
}

#ifdef __cplusplus
}
#endif

#include "thalweg_ring_cold.h"

#endif
