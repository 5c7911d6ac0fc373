/* Rare operations on an element: it is made, taken over and closed, its blocks roll, kinds are declared, a
 * process forks. See thalweg_ring.h. */
#ifndef THALWEG_RING_COLD_H
#define THALWEG_RING_COLD_H

#include <pthread.h>

#include "thalweg_space.h"

#ifdef __cplusplus
extern "C" {
#else
extern int pthread_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void));
#endif

THALWEG_COLD void thalweg_close_block(struct thalweg_thread *thread)
{
    if (thread->position < thread->end) {
        __atomic_store_n((uint64_t *)(thread->base + thread->position), 0, __ATOMIC_RELAXED);
        thread->position = thread->end;
    }
}

/* Counts events as dropped. No further event is stored in this block, because its sequence number would be
 * wrong. */
THALWEG_COLD void thalweg_drop(struct thalweg_thread *thread, uint64_t count)
{
    thalweg_close_block(thread);
    thread->drops += count;
    thread->sequence += count;
    __atomic_store_n(thalweg_word(thread->map, THALWEG_ELEMENT_DROPS), thread->drops, __ATOMIC_RELEASE);
}

THALWEG_COLD void thalweg_account(struct thalweg_thread *thread)
{
    uint32_t missed = thread->missed;
    if (thread->busy)
        return;
    if (!thread->map) {
        thalweg_count_lost(missed - thread->accounted);
        thread->accounted = missed;
        return;
    }
    thread->busy = 1;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    thalweg_drop(thread, missed - thread->accounted);
    thread->accounted = missed;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    thread->busy = 0;
}

/* Records which thread writes from here on. */
THALWEG_COLD void thalweg_put_owner(struct thalweg_thread *thread)
{
    uint64_t *at = (uint64_t *)(thread->base + thread->position);
    __atomic_store_n(&at[1], (uint64_t)thread->number | (uint64_t)thread->tid << 32, __ATOMIC_RELAXED);
    __atomic_store_n(&at[2], 0, __ATOMIC_RELAXED);
    __atomic_store_n(&at[3], thread->owner_sequence, __ATOMIC_RELAXED);
    __atomic_store_n(&at[0], thread->last_low | (uint64_t)THALWEG_EVENT_KIND_OWNER << 32 | (uint64_t)THALWEG_EVENT_OWNER_WORDS << 48,
                     __ATOMIC_RELAXED);
    thread->position += 8 * THALWEG_EVENT_OWNER_WORDS;
}

/* Opens the next block, with `ticks` as its base. */
THALWEG_COLD void thalweg_roll(struct thalweg_thread *thread, uint64_t ticks)
{
    uint64_t start, number, *block;
    thalweg_close_block(thread);
    start = thread->end;
    number = start / thread->block_bytes;
    block = (uint64_t *)(thread->map + THALWEG_ELEMENT_DATA + number % thread->block_count * thread->block_bytes);
    __atomic_store_n(&block[0], 0, __ATOMIC_RELAXED);
    __atomic_thread_fence(__ATOMIC_RELEASE);
    __atomic_store_n(&block[1], ticks, __ATOMIC_RELAXED);
    __atomic_store_n(&block[2], thread->sequence, __ATOMIC_RELAXED);
    __atomic_store_n(&block[3], thread->drops, __ATOMIC_RELAXED);
    __atomic_store_n(&block[0], number + 1, __ATOMIC_RELEASE);
    __atomic_store_n(thalweg_word(thread->map, THALWEG_ELEMENT_SEQUENCE), thread->sequence, __ATOMIC_RELAXED);
    thread->position = start + THALWEG_BLOCK_HEADER;
    thread->end = start + thread->block_bytes;
    thread->base = (unsigned char *)block - start;
    thread->high = (uint32_t)(ticks >> 32);
    if (thread->generation > 1)
        thalweg_put_owner(thread);
}

/* Whether the consumer of this element is a process that has died. */
THALWEG_COLD int thalweg_reader_is_dead(struct thalweg_thread *thread)
{
    uint64_t reader = __atomic_load_n(thalweg_word(thread->map, THALWEG_ELEMENT_READER), __ATOMIC_ACQUIRE);
    return reader != 0 && thalweg_start_of((uint32_t)reader) != *thalweg_word(thread->map, THALWEG_ELEMENT_READER_START);
}

/* The time between two checks whether the reader of a full ring is alive, which read a file of /proc. */
#define THALWEG_LOOK_FOR_READER_NS 20000000

/* Whether the next block may be written. A thread that waits for its reader sleeps, each time twice as long, up to a
   millisecond: thus a wait takes little processor time, and at most about twice as long as the reader needs. */
THALWEG_COLD int thalweg_is_free(struct thalweg_thread *thread)
{
    struct timespec pause = {0, 50000};
    uint64_t needed = thread->end + thread->block_bytes, room = thread->block_bytes * thread->block_count, before, begun = 0, looked = 0;
    needed = needed > room ? needed - room : 0;
    if (thread->policy == 0 || thread->read_position >= needed)
        return 1;
    before = thread->read_position;
    for (;;) {
        uint64_t now, position = __atomic_load_n(thalweg_word(thread->map, THALWEG_ELEMENT_READ_POSITION), __ATOMIC_ACQUIRE);
        thread->read_position = position < thread->end ? position : thread->end;
        if (thread->read_position != before)
            thread->stalled = 0;
        if (thread->read_position >= needed)
            return 1;
        if (thread->policy != 2 || thread->stalled)
            return 0;
        now = thalweg_monotonic();
        if (begun == 0)
            begun = looked = now;
        if (now - begun >= thalweg_process.wait_ns || (now - looked > THALWEG_LOOK_FOR_READER_NS && thalweg_reader_is_dead(thread))) {
            thread->stalled = 1;
            return 0;
        }
        if (now - looked > THALWEG_LOOK_FOR_READER_NS)
            looked = now;
        syscall(SYS_nanosleep, &pause, NULL);
        pause.tv_nsec = pause.tv_nsec < 500000 ? 2 * pause.tv_nsec : 1000000;
    }
}

/* Declares a kind in the element's catalog. */
THALWEG_COLD int thalweg_declare(struct thalweg_thread *thread, struct thalweg_kind *kind)
{
    char path[4200], name[32];
    uint64_t signals;
    uint32_t n, c, id;
    size_t record;
    int done = 0;
    if (!thalweg_enter_cold(&signals))
        return 0;
    if (kind->index == 0 && thalweg_process.kinds + 1 < THALWEG_KINDS_MAX)
        __atomic_store_n(&kind->index, ++thalweg_process.kinds, __ATOMIC_RELEASE);
    if (kind->index != 0) {
        id = THALWEG_EVENT_KIND_FIRST + thread->kinds_declared;
        record = thalweg_begin_record(1);
        thalweg_record_u32(id);
        thalweg_record_u64(kind->hash);
        thalweg_record_text(kind->name, 1024);
        thalweg_record_text(kind->doc, 2048);
        thalweg_record_u32(kind->field_count);
        for (n = 0; n < kind->field_count; n++) {
            const struct thalweg_field *field = &kind->fields[n];
            thalweg_record_u32(field->type);
            thalweg_record_text(field->name, 256);
            thalweg_record_text(field->unit, 256);
            thalweg_record_text(field->doc, 1024);
            thalweg_record_u32(field->choice_count);
            for (c = 0; c < field->choice_count; c++) {
                thalweg_record_u64(field->choices[c].value);
                thalweg_record_text(field->choices[c].name, 256);
            }
        }
        thalweg_seal_record(record, THALWEG_CATALOG_KIND);
        snprintf(name, sizeof name, "%04u.catalog", thread->file_number);
        thalweg_path(path, sizeof path, name);
        done = thalweg_record_bytes < THALWEG_RECORD_BYTES - 64 && thalweg_append(path);
        if (done) {
            thread->kind_words[kind->index] = (uint64_t)id << 32 | (uint64_t)kind->event_words << 48;
            thread->kinds_declared++;
        }
    }
    thalweg_leave_cold(&signals);
    return done;
}

/* Makes the files of an element; the caller holds the lock. */
THALWEG_COLD int thalweg_make_element(struct thalweg_thread *thread)
{
    char path[4200], name[32];
    uint32_t number = ++thalweg_process.writers;
    thread->block_bytes = thalweg_process.block_bytes;
    thread->block_count = thalweg_process.block_count;
    thread->policy = thalweg_process.policy;
    thread->map_bytes = THALWEG_ELEMENT_DATA + thread->block_bytes * thread->block_count;
    snprintf(name, sizeof name, "%04u.catalog", number);
    thalweg_path(path, sizeof path, name);
    if (!thalweg_make_catalog(path, number))
        return 0;
    snprintf(name, sizeof name, "%04u.element", number);
    thalweg_path(path, sizeof path, name);
    thread->map = thalweg_make_map(path, thread->map_bytes, NULL);
    if (!thread->map)
        return 0;
    thread->number = thread->file_number = number;
    thread->position = thread->end = thread->sequence = thread->drops = thread->read_position = 0;
    thread->generation = thread->stalled = thread->kinds_declared = 0;
    memset(thread->kind_words, 0, sizeof thread->kind_words);
    thread->head = thalweg_word(thread->map, THALWEG_ELEMENT_HEAD);
    thalweg_store(thread->map, THALWEG_ELEMENT_VERSION, THALWEG_VERSION | (uint64_t)thread->policy << 32);
    thalweg_store(thread->map, THALWEG_ELEMENT_BLOCKS, thread->block_bytes | thread->block_count << 32);
    thalweg_store(thread->map, THALWEG_ELEMENT_PROCESS, thalweg_process.pid);
    thalweg_store(thread->map, THALWEG_ELEMENT_PROCESS_START, thalweg_process.process_start);
    thalweg_store(thread->map, THALWEG_ELEMENT_WRITER, number);
    thalweg_store(thread->map, THALWEG_ELEMENT_FREQUENCY, thalweg_process.hz);
    __atomic_store_n(thalweg_word(thread->map, THALWEG_ELEMENT_MAGIC), THALWEG_ELEMENT_MAGIC_VALUE, __ATOMIC_RELEASE);
    return 1;
}

/* Makes this thread the writer of the element. */
THALWEG_COLD void thalweg_take_over(struct thalweg_thread *thread)
{
    thread->tid = (uint32_t)syscall(SYS_gettid);
    thread->exceptions = NULL;
    thread->owner_sequence = thread->sequence;
    thread->generation++;
    thread->stalled = 0;
    thalweg_store(thread->map, THALWEG_ELEMENT_OWNER, (uint64_t)thread->number | (uint64_t)thread->tid << 32);
    thalweg_store(thread->map, THALWEG_ELEMENT_GENERATION, thread->generation);
    __atomic_store_n(thalweg_word(thread->map, THALWEG_ELEMENT_STATE), 1, __ATOMIC_RELEASE);
    if (thread->generation > 1) {
        if (thread->position + 8 * THALWEG_EVENT_OWNER_WORDS <= thread->end) {
            thalweg_put_owner(thread);
            __atomic_store_n(thread->head, thread->position, __ATOMIC_RELEASE);
        } else {
            thalweg_close_block(thread);
        }
    }
    __atomic_store_n(thalweg_word(thalweg_process.identity, THALWEG_IDENTITY_WRITERS), thalweg_process.writers, __ATOMIC_RELEASE);
}

/* Handles the end of a thread: its element can be used by another thread. */
THALWEG_COLD void thalweg_close_thread(void *of)
{
    struct thalweg_thread *thread = (struct thalweg_thread *)of;
    thalweg_current = NULL;
    if (!thread->map)
        return;
    if (thread->missed != thread->accounted)
        thalweg_account(thread);
    thalweg_store(thread->map, THALWEG_ELEMENT_SEQUENCE, thread->sequence);
    __atomic_store_n(thalweg_word(thread->map, THALWEG_ELEMENT_STATE), 2, __ATOMIC_RELEASE);
    thread->depth = thread->muted = thread->skip = thread->frame_count = thread->has_trace = 0;
    __atomic_store_n(&thread->in_use, 0, __ATOMIC_RELEASE);
}

/* Runs in the child of a fork, whose events must not go into the parent's space. The child's own space is
 * made with its next event. */
THALWEG_COLD void thalweg_forked(void)
{
    struct thalweg_thread *thread, *current = thalweg_current;
    thalweg_process.lock = 0;
    if (thalweg_process.state != 1)
        return;
    thalweg_process.no_sample = thalweg_process.sample ? *thalweg_process.sample : 1;
    thalweg_process.state = 0;
    /* The spans of the child differ from its parent's from the first one on, which may come before there is a
     * space. */
    thalweg_random(&thalweg_process.span_base, 8);
    thalweg_process.is_forked = 1;
    thalweg_process.sample = thalweg_process.lost = NULL;
    thalweg_process.no_lost = 0;
    for (thread = thalweg_process.threads; thread; thread = thread->next) {
        /* If the fork happened in a signal handler, the interrupted writer continues its stores, which now go
         * to unused memory. */
        if (thread->map && thread->busy)
            syscall(SYS_mmap, thread->map, (long)thread->map_bytes, THALWEG_PROT_READ_WRITE,
                    THALWEG_MAP_PRIVATE_ANONYMOUS | THALWEG_MAP_FIXED, -1L, 0L);
        else if (thread->map)
            syscall(SYS_munmap, thread->map, (long)thread->map_bytes);
        thread->map = NULL;
        thread->position = thread->end = 0;
        thread->busy = 0;
        memset(thread->kind_words, 0, sizeof thread->kind_words);
        if (thread != current)
            thread->in_use = 0;
    }
    syscall(SYS_munmap, thalweg_process.identity, (long)THALWEG_PAGE);
    syscall(SYS_munmap, thalweg_process.settings,
            (long)(THALWEG_SETTINGS_TOOLS + THALWEG_SETTINGS_TOOL_BYTES * THALWEG_SETTINGS_CELL_COUNT));
}

/* Keeps the code of an unloaded library in memory, because the process will still call it. */
extern int thalweg_dladdr(const void *address, void *found) __asm__("dladdr") __attribute__((weak));
extern void *thalweg_dlopen(const char *path, int mode) __asm__("dlopen") __attribute__((weak));

THALWEG_COLD void thalweg_stay(void)
{
    struct {
        const char *path;
        void *base;
        const char *symbol;
        void *address;
    } found = {NULL, NULL, NULL, NULL};
    if (thalweg_dladdr && thalweg_dlopen && thalweg_dladdr((const void *)(uintptr_t)&thalweg_forked, &found) && found.path)
        thalweg_dlopen(found.path, 2 | 4 | 0x1000 /* now, if it is loaded, not to be deleted */);
}

/* Ensures that there is a space; the caller holds the lock. */
THALWEG_COLD int thalweg_has_space(void)
{
    if (thalweg_process.state == 0) {
        int is_child = (int)thalweg_process.is_forked, made;
        if (!thalweg_process.has_handlers) {
            pthread_key_t key;
            thalweg_process.has_handlers = 1;
            pthread_atfork(NULL, NULL, thalweg_forked);
            if (pthread_key_create(&key, thalweg_close_thread) == 0)
                thalweg_process.key = (uint32_t)key + 1;
            atexit(thalweg_finish);
            thalweg_stay();
        }
        made = thalweg_make_space(is_child);
        if (made)
            thalweg_process.is_forked = 0;
        if (made && thalweg_process.no_lost)
            __atomic_fetch_add(thalweg_process.lost, __atomic_exchange_n(&thalweg_process.no_lost, 0, __ATOMIC_RELAXED), __ATOMIC_RELAXED);
        __atomic_store_n(&thalweg_process.state, made ? 1 : 2, __ATOMIC_RELEASE);
    }
    return thalweg_process.state == 1;
}

/* Gives an element to a thread that has none. */
THALWEG_COLD int thalweg_open_element(struct thalweg_thread *thread)
{
    uint64_t signals;
    int made = 0;
    if (thalweg_process.state == 2 || !thalweg_enter_cold(&signals))
        return 0;
    if (thalweg_has_space() && thalweg_make_element(thread)) {
        thalweg_take_over(thread);
        made = 1;
    }
    thalweg_leave_cold(&signals);
    return made;
}

/* Gives this thread the element of a thread that has ended. */
THALWEG_COLD struct thalweg_thread *thalweg_reuse(void)
{
    struct thalweg_thread *thread = __atomic_load_n(&thalweg_process.threads, __ATOMIC_ACQUIRE);
    for (; thread; thread = thread->next) {
        uint32_t free = 0;
        if (__atomic_load_n(&thread->in_use, __ATOMIC_RELAXED) == 0 &&
            __atomic_compare_exchange_n(&thread->in_use, &free, 1, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
            return thread;
    }
    return NULL;
}

THALWEG_COLD struct thalweg_thread *thalweg_open_thread(void)
{
    struct thalweg_thread *thread;
    uint64_t signals, all = ~UINT64_C(0);
    if (__atomic_load_n(&thalweg_process.state, __ATOMIC_ACQUIRE) == 2) {
        thalweg_count_lost(1);
        return NULL;
    }
    syscall(SYS_rt_sigprocmask, 2L, &all, &signals, 8L);
    thread = thalweg_reuse();
    if (!thread) {
        thread = (struct thalweg_thread *)thalweg_memory(sizeof *thread);
        if (thread) {
            thread->in_use = 1;
            thread->next = __atomic_load_n(&thalweg_process.threads, __ATOMIC_RELAXED);
            while (!__atomic_compare_exchange_n(&thalweg_process.threads, &thread->next, thread, 0, __ATOMIC_RELEASE, __ATOMIC_RELAXED))
                ;
        }
    }
    if (!thread) {
        syscall(SYS_rt_sigprocmask, 2L, &signals, NULL, 8L);
        thalweg_count_lost(1);
        return NULL;
    }
    if (thread->map) {
        uint64_t held;
        if (thalweg_enter_cold(&held)) {
            thread->number = ++thalweg_process.writers;
            thalweg_take_over(thread);
            thalweg_leave_cold(&held);
        }
    } else {
        thalweg_open_element(thread);
    }
    if (thalweg_process.state == 2) {
        /* There is no space and will be none, because of the environment or because nothing can be written:
         * later events return at once. */
        __atomic_store_n(&thread->in_use, 0, __ATOMIC_RELEASE);
        syscall(SYS_rt_sigprocmask, 2L, &signals, NULL, 8L);
        thalweg_count_lost(1);
        return NULL;
    }
    thalweg_current = thread;
    if (thalweg_process.key)
        pthread_setspecific((pthread_key_t)(thalweg_process.key - 1), thread);
    syscall(SYS_rt_sigprocmask, 2L, &signals, NULL, 8L);
    return thread;
}

THALWEG_COLD int thalweg_make_way(struct thalweg_thread *thread, struct thalweg_kind *kind, uint64_t bytes, uint64_t ticks)
{
    if (!thread->map) {
        /* The element could not be made, so making it is tried again after one second, then after two, four,
           and so on. */
        if (ticks < thread->retry_at || !thalweg_open_element(thread)) {
            if (ticks >= thread->retry_at) {
                thread->retry_at = ticks + (thalweg_process.hz << thread->tries);
                thread->tries += thread->tries < 10;
            }
            thalweg_count_lost(1);
            return 0;
        }
    }
    if (thread->kind_words[kind->index] == 0 && !thalweg_declare(thread, kind)) {
        thalweg_drop(thread, 1);
        return 0;
    }
    if (thread->position + bytes <= thread->end && (uint32_t)(ticks >> 32) == thread->high)
        return 1;
    if (thread->position + bytes + 16 <= thread->end) {
        uint64_t *at = (uint64_t *)(thread->base + thread->position);
        __atomic_store_n(&at[0], (uint64_t)THALWEG_EVENT_KIND_FULL_TIME << 32 | UINT64_C(2) << 48, __ATOMIC_RELAXED);
        __atomic_store_n(&at[1], ticks, __ATOMIC_RELAXED);
        thread->position += 16;
        thread->high = (uint32_t)(ticks >> 32);
        return 1;
    }
    if (!thalweg_is_free(thread)) {
        thalweg_drop(thread, 1);
        return 0;
    }
    thalweg_roll(thread, ticks);
    return 1;
}

/* Appends an event with texts. Text that does not fit into a block is cut, and the event is marked as cut. */
THALWEG_COLD void thalweg_put_tails(struct thalweg_thread *thread, struct thalweg_kind *kind, uint64_t ticks, const uint64_t *words,
                                    unsigned word_count, const struct thalweg_tail *tails, const unsigned char *lengths,
                                    unsigned tail_count)
{
    uint64_t room = 2048, bytes, all = 0, flags = 0, share, *at;
    unsigned n;
    if (thread->busy) {
        thread->missed = thread->missed + 1;
        return;
    }
    thread->busy = 1;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    if (thread->map)
        room = thread->block_bytes - THALWEG_BLOCK_HEADER - 8 * THALWEG_EVENT_OWNER_WORDS;
    if (room > 8 * THALWEG_EVENT_WORDS_MAX)
        room = 8 * THALWEG_EVENT_WORDS_MAX;
    room -= 8 * (1 + word_count);
    share = room / (tail_count ? tail_count : 1) & ~UINT64_C(7);
    for (n = 0; n < tail_count; n++)
        all += (tails[n].count + 7) & ~UINT64_C(7);
    if (all <= room) {
        share = room;
    } else {
        flags = THALWEG_EVENT_FLAG_TRUNCATED;
        for (all = 0, n = 0; n < tail_count; n++)
            all += ((tails[n].count < share ? tails[n].count : share) + 7) & ~UINT64_C(7);
    }
    bytes = 8 * (1 + word_count) + all;
    if (thalweg_make_way(thread, kind, bytes, ticks)) {
        at = (uint64_t *)(thread->base + thread->position);
        memcpy(&at[1], words, 8 * word_count);
        {
            unsigned char *to = (unsigned char *)&at[1 + word_count];
            for (n = 0; n < tail_count; n++) {
                uint32_t count = (uint32_t)(tails[n].count < share ? tails[n].count : share);
                memcpy((unsigned char *)&at[1] + 4 * lengths[n], &count, 4);
                memset(to + (count & ~7u), 0, count & 7u ? 8 : 0);
                memcpy(to, tails[n].bytes, count);
                to += (count + 7) & ~7u;
            }
        }
        __atomic_store_n(&at[0],
                         (thread->kind_words[kind->index] & UINT64_C(0xffff00000000)) | (uint32_t)ticks | (bytes / 8) << 48 | flags << 60,
                         __ATOMIC_RELAXED);
        thread->last_low = (uint32_t)ticks;
        thread->position += bytes;
        thread->sequence++;
        __atomic_store_n(thread->head, thread->position, __ATOMIC_RELEASE);
    }
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    thread->busy = 0;
    if (thread->missed != thread->accounted)
        thalweg_account(thread);
}

#ifdef __cplusplus
}
#endif

#endif
