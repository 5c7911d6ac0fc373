/* Probes for programs in C and C++: which operations are called by which, how often, how long, and which fail.
 *
 *     #include "thalweg_probe.h"
 *
 *     int order(int item)
 *     {
 *         THALWEG_PROBE();          // the call is recorded when the function is left
 *         ...
 *     }
 *
 * `thalweg calls` shows the call graph while the program runs, or later. Header only: there is nothing to
 * link. Requires C11 or C++17 with gcc or clang, on Linux with a little-endian processor of 64 bits. See
 * docs/probes.md.
 *
 * A call costs two readings of the clock and some stores; where it is switched off, a load and a branch. No
 * probe takes a lock or memory from malloc, and events that cannot be recorded are counted. Probes are safe
 * in signal handlers and in any thread or process; if a handler interrupts the writing of an event, the
 * handler's own event is counted as dropped. */
#ifndef THALWEG_PROBE_H
#define THALWEG_PROBE_H

#include "thalweg_probe_kinds.h"

#ifdef __cplusplus
#include <cxxabi.h>
extern "C" {
#endif

/* A place in the program whose calls are recorded. One is made per use of THALWEG_PROBE(). */
struct thalweg_operation {
    /* The switch of the operation, in memory that is shared with the processes that switch it. */
    const uint64_t *on;
    /* The number in the catalog; 0 if the operation is not declared yet. */
    uint32_t id;
    uint32_t line;
    const char *name, *file, *kind;
};

/* A call that is under way. */
struct thalweg_call {
    /* The thread; NULL if the call is not recorded. */
    struct thalweg_thread *thread;
    uint64_t entry;
    const struct thalweg_operation *operation;
    uint32_t depth;
    uint32_t outcome;
};

/* The names of outcomes. */
#define THALWEG_RETURNED 0
#define THALWEG_FAILED 1
#define THALWEG_UNWOUND 2

/* The switch of operations that are not declared yet, which is on. */
static const uint64_t thalweg_is_on = 1;
/* The switch of all operations if there will be no space, which is off. */
static const uint64_t thalweg_is_off = 0;

/* Declares an operation and returns its number; 0 if declaring failed. */
THALWEG_COLD uint32_t thalweg_declare_operation(struct thalweg_operation *operation);
/* Decides whether the trace that begins here is recorded. */
THALWEG_COLD int thalweg_begin_trace(struct thalweg_thread *thread, uint64_t sample);

#define THALWEG_OPERATION_OF(name_, kind_) {&thalweg_is_on, 0, (uint32_t)__LINE__, (name_), __FILE__, (kind_)}

/* A depth in the form for events: depths above 65535 become 65535. */
THALWEG_HOT uint16_t thalweg_depth(uint32_t depth) { return (uint16_t)(depth < 65535 ? depth : 65535); }

/* Begins a call. */
THALWEG_HOT void thalweg_begin(struct thalweg_call *call, struct thalweg_operation *operation)
{
    struct thalweg_thread *thread;
    /* All fields are set, or compilers warn in loops; for a local variable this costs nothing. */
    call->thread = NULL;
    call->outcome = THALWEG_RETURNED;
    call->operation = operation;
    call->entry = 0;
    call->depth = 0;
    if (!__atomic_load_n(__atomic_load_n(&operation->on, __ATOMIC_RELAXED), __ATOMIC_RELAXED))
        return;
    thread = thalweg_thread_here();
    if (THALWEG_UNLIKELY(thread == NULL)) {
        if (thalweg_process.state == 2)
            __atomic_store_n(&operation->on, &thalweg_is_off, __ATOMIC_RELAXED);
        return;
    }
    if (THALWEG_UNLIKELY(__atomic_load_n(&operation->id, __ATOMIC_ACQUIRE) == 0)) {
        if (thalweg_declare_operation(operation) == 0) {
            if (thalweg_process.state == 2)
                __atomic_store_n(&operation->on, &thalweg_is_off, __ATOMIC_RELAXED);
            thalweg_count_lost(1);
            return;
        }
        /* The operation may have been switched off by its name. */
        if (!__atomic_load_n(operation->on, __ATOMIC_RELAXED))
            return;
    }
    if (THALWEG_UNLIKELY(thread->muted))
        return;
    call->depth = thread->depth;
    if (call->depth == 0) {
        const uint64_t *sample = thalweg_process.sample;
        if (THALWEG_UNLIKELY((sample && *sample > 1) || thread->skip) && !thalweg_begin_trace(thread, sample ? *sample : 1)) {
            call->thread = thread;
            return;
        }
    }
    thread->depth = call->depth + 1;
    call->thread = thread;
    call->entry = thalweg_now();
}

/* Ends a call. */
THALWEG_HOT void thalweg_end(struct thalweg_call *call)
{
    struct thalweg_thread *thread = call->thread;
    uint64_t now;
    if (!thread)
        return;
    call->thread = NULL;
    if (THALWEG_UNLIKELY(call->entry == 0)) {
        thread->muted = 0;
        return;
    }
    now = thalweg_now();
    thread->depth = call->depth;
    thalweg_emit_probe_called_at(thread, now, call->operation->id, thalweg_depth(call->depth), (uint8_t)call->outcome, now - call->entry);
    if (call->depth == 0)
        thread->has_trace = 0;
}

/* Ends the call of a constructor; `object` is a number for the new object, for instance its address. */
THALWEG_HOT void thalweg_end_constructor(struct thalweg_call *call, uint64_t object)
{
    struct thalweg_thread *thread = call->thread;
    uint64_t now;
    if (!thread || call->entry == 0) {
        thalweg_end(call);
        return;
    }
    call->thread = NULL;
    now = thalweg_now();
    thread->depth = call->depth;
    thalweg_emit_probe_constructed_at(thread, now, call->operation->id, thalweg_depth(call->depth), (uint8_t)call->outcome,
                                      now - call->entry, object);
    if (call->depth == 0)
        thread->has_trace = 0;
}

/* Records two events instead of one: the first reports that the call is under way, for calls that may take
 * long. */
THALWEG_HOT void thalweg_enter(struct thalweg_call *call, struct thalweg_operation *operation)
{
    thalweg_begin(call, operation);
    if (call->thread && call->entry)
        thalweg_emit_probe_entered_at(call->thread, call->entry, operation->id, thalweg_depth(call->depth));
}

THALWEG_HOT void thalweg_leave(struct thalweg_call *call)
{
    struct thalweg_thread *thread = call->thread;
    if (!thread || call->entry == 0) {
        thalweg_end(call);
        return;
    }
    call->thread = NULL;
    thread->depth = call->depth;
    thalweg_emit_probe_left_at(thread, thalweg_now(), call->operation->id, thalweg_depth(call->depth), (uint8_t)call->outcome);
    if (call->depth == 0)
        thread->has_trace = 0;
}

/* Marks the call as failed, though it returns. */
THALWEG_HOT void thalweg_fail(struct thalweg_call *call) { call->outcome = THALWEG_FAILED; }

/* The number of a counter, gauge or place, which is declared if needed; 0 if it is switched off or cannot be
 * declared. */
THALWEG_HOT uint32_t thalweg_id_of(struct thalweg_operation *operation)
{
    uint32_t id;
    if (!__atomic_load_n(__atomic_load_n(&operation->on, __ATOMIC_RELAXED), __ATOMIC_RELAXED))
        return 0;
    id = __atomic_load_n(&operation->id, __ATOMIC_ACQUIRE);
    if (THALWEG_LIKELY(id != 0))
        return id;
    if (thalweg_thread_here() != NULL)
        id = thalweg_declare_operation(operation);
    if (thalweg_process.state == 2)
        __atomic_store_n(&operation->on, &thalweg_is_off, __ATOMIC_RELAXED);
    return __atomic_load_n(__atomic_load_n(&operation->on, __ATOMIC_RELAXED), __ATOMIC_RELAXED) ? id : 0;
}

/* Records that work is handed to another thread, or will be done later. Returns the number of the work, which
 * the thread that does it gives to thalweg_take_over_work. */
THALWEG_COLD uint64_t thalweg_hand_over(void);
/* Begins the work with this number: the outermost call that encloses this function call, or else the next
 * call in this thread, belongs to the work. */
THALWEG_COLD void thalweg_take_over_work(uint64_t span);

/* The bytes of a `traceparent`, with its final zero. */
#define THALWEG_TRACEPARENT_BYTES 56
/* Writes the W3C `traceparent` of a message that is sent now, whose size is `bytes` (0 if not known), and
 * records the sending. Gives an empty text and 0 if nothing is recorded. */
THALWEG_COLD int thalweg_traceparent_out(char text[THALWEG_TRACEPARENT_BYTES], uint64_t bytes);
/* Continues the trace of a message that was received: the outermost call that encloses this function call, or
 * else the next call in this thread, belongs to the sender's trace. If the sender's trace is not recorded,
 * this thread's trace is not recorded either, unless a part of it was recorded already. Returns 0 if the text
 * is no `traceparent`. */
THALWEG_COLD int thalweg_traceparent_in(const char *text, uint64_t bytes);

#ifdef __cplusplus
}
#endif

#define THALWEG_JOIN_(a, b) a##b
#define THALWEG_JOIN(a, b) THALWEG_JOIN_(a, b)

/* Macros that add to a counter, record the value of a gauge, and write a log line; `name` is a constant. */
#define THALWEG_COUNT(name_, by_)                                                                                                        \
    do {                                                                                                                                 \
        static struct thalweg_operation thalweg_place_ = THALWEG_OPERATION_OF(name_, "counter");                                         \
        uint32_t thalweg_id_ = thalweg_id_of(&thalweg_place_);                                                                           \
        if (thalweg_id_)                                                                                                                 \
            thalweg_emit_probe_counted(thalweg_id_, (int64_t)(by_));                                                                     \
    } while (0)
#define THALWEG_GAUGE(name_, value_)                                                                                                     \
    do {                                                                                                                                 \
        static struct thalweg_operation thalweg_place_ = THALWEG_OPERATION_OF(name_, "gauge");                                           \
        uint32_t thalweg_id_ = thalweg_id_of(&thalweg_place_);                                                                           \
        if (thalweg_id_)                                                                                                                 \
            thalweg_emit_probe_gauged(thalweg_id_, (double)(value_));                                                                    \
    } while (0)
/* `level` is 1 error, 2 warning, 3 info, 4 debug or 5 trace. */
#define THALWEG_LOG(level_, text_, bytes_)                                                                                               \
    do {                                                                                                                                 \
        static struct thalweg_operation thalweg_place_ = THALWEG_OPERATION_OF(__func__, "log");                                          \
        uint32_t thalweg_id_ = thalweg_id_of(&thalweg_place_);                                                                           \
        if (thalweg_id_)                                                                                                                 \
            thalweg_emit_probe_logged(thalweg_id_, (uint8_t)(level_), (text_), (bytes_));                                                \
    } while (0)

#ifdef __cplusplus

namespace thalweg
{
/* The number of exceptions under way in this thread, as std::uncaught_exceptions() returns it, without a
 * call. */
inline __attribute__((always_inline, no_instrument_function)) unsigned exceptions(::thalweg_thread *thread) noexcept
{
#if defined(__cpp_exceptions)
    /* The Itanium ABI's __cxa_eh_globals: a pointer, and this count. */
    if (__builtin_expect(thread->exceptions == nullptr, 0))
        thread->exceptions = reinterpret_cast<const unsigned *>(reinterpret_cast<char *>(::abi::__cxa_get_globals()) + sizeof(void *));
    return *thread->exceptions;
#else
    (void)thread;
    return 0;
#endif
}

/* Records the call of the scope in which the object lives, and whether an exception left the scope. */
class Probe
{
  public:
    inline __attribute__((always_inline, no_instrument_function)) explicit Probe(::thalweg_operation &operation) noexcept
    {
        thalweg_begin(&call_, &operation);
        exceptions_ = call_.thread ? exceptions(call_.thread) : 0;
    }
    inline __attribute__((always_inline, no_instrument_function)) ~Probe()
    {
        if (call_.thread) {
            if (__builtin_expect(exceptions(call_.thread) > exceptions_, 0))
                call_.outcome = THALWEG_UNWOUND;
            thalweg_end(&call_);
        }
    }
    Probe(const Probe &) = delete;
    Probe &operator=(const Probe &) = delete;
    /* Marks the call as failed, though it returns. */
    void fail() noexcept { thalweg_fail(&call_); }
    ::thalweg_call *operator&() noexcept { return &call_; }

  private:
    ::thalweg_call call_;
    unsigned exceptions_;
};
} // namespace thalweg

#define THALWEG_PROBE_OF(variable_, name_, kind_)                                                                                         \
    static ::thalweg_operation THALWEG_JOIN(variable_, _operation) = THALWEG_OPERATION_OF(name_, kind_);                                 \
    ::thalweg::Probe variable_(THALWEG_JOIN(variable_, _operation))
#define THALWEG_PROBE_AS(variable_, name_) THALWEG_PROBE_OF(variable_, name_, "operation")
/* Records the calls of this function, under its name without return type and parameters. */
#define THALWEG_PROBE() THALWEG_PROBE_OF(THALWEG_JOIN(thalweg_probe_, __LINE__), __PRETTY_FUNCTION__, "function")

#else

/* Ends a call when its scope is left. */
static inline __attribute__((always_inline, unused, no_instrument_function)) void thalweg_leave_scope(struct thalweg_call *call)
{
    thalweg_end(call);
}

#define THALWEG_PROBE_AS(variable_, name_)                                                                                               \
    static struct thalweg_operation THALWEG_JOIN(variable_, _operation) = THALWEG_OPERATION_OF(name_, "operation");                      \
    struct thalweg_call variable_ __attribute__((cleanup(thalweg_leave_scope)));                                                         \
    thalweg_begin(&variable_, &THALWEG_JOIN(variable_, _operation))
/* Records the calls of this function. */
#define THALWEG_PROBE() THALWEG_PROBE_AS(THALWEG_JOIN(thalweg_probe_, __LINE__), __func__)

#endif

/* Records calls under a chosen name, and of a part of a function: up to the end of its block. */
#define THALWEG_SPAN(name_) THALWEG_PROBE_AS(THALWEG_JOIN(thalweg_probe_, __LINE__), name_)

#include "thalweg_probe_cold.h"

#endif
