/* The space of a process that writes with thalweg_ring.h: its directory, identity, catalog, settings and switches, and the session it joins.
 *
 * The operations in this file are rare, and one thread at a time performs them with its signals blocked. The
 * operations take no memory from malloc, so they may run in a signal handler, and in the child of a fork of a
 * process with many threads. */
#ifndef THALWEG_SPACE_H
#define THALWEG_SPACE_H

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#ifdef __cplusplus
extern "C" {
#else
/* Strict C hides this declaration. */
extern long syscall(long number, ...);
#endif

/* AT_FDCWD, which strict C hides. */
#define THALWEG_HERE -100L
#define THALWEG_PROT_READ_WRITE 3L
#define THALWEG_MAP_SHARED 1L
#define THALWEG_MAP_FIXED 16L
#define THALWEG_MAP_PRIVATE_ANONYMOUS 34L
#define THALWEG_POPULATE_WRITE 23L
#define THALWEG_RECORD_BYTES 65536
/* The catalog cuts a longer text. */
#define THALWEG_TEXT_BYTES 24000

/* The record of a catalog that is being made; the thread that holds the lock uses it. */
THALWEG_SHARED unsigned char thalweg_record[THALWEG_RECORD_BYTES];
THALWEG_SHARED size_t thalweg_record_bytes;

THALWEG_HOT uint64_t *thalweg_word(unsigned char *map, size_t at) { return (uint64_t *)(map + at); }

THALWEG_HOT void thalweg_store(unsigned char *map, size_t at, uint64_t value)
{
    __atomic_store_n(thalweg_word(map, at), value, __ATOMIC_RELAXED);
}

/* Blocks the thread's signals and waits for other threads in rare operations; 0 if it waited too long. */
THALWEG_COLD int thalweg_enter_cold(uint64_t *signals)
{
    uint64_t all = ~UINT64_C(0), begun = 0;
    uint32_t tid = (uint32_t)syscall(SYS_gettid);
    syscall(SYS_rt_sigprocmask, 2L, &all, signals, 8L);
    for (;;) {
        uint32_t nobody = 0;
        if (__atomic_compare_exchange_n(&thalweg_process.lock, &nobody, tid, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
            return 1;
        if (begun == 0)
            begun = thalweg_monotonic();
        if (nobody == tid || thalweg_monotonic() - begun > UINT64_C(2000000000)) {
            syscall(SYS_rt_sigprocmask, 2L, signals, NULL, 8L);
            return 0;
        }
        syscall(SYS_sched_yield);
    }
}

THALWEG_COLD void thalweg_leave_cold(uint64_t *signals)
{
    __atomic_store_n(&thalweg_process.lock, 0, __ATOMIC_RELEASE);
    syscall(SYS_rt_sigprocmask, 2L, signals, NULL, 8L);
}

/* Counts events for which there was no element. */
THALWEG_COLD void thalweg_count_lost(uint64_t count)
{
    uint64_t *lost = __atomic_load_n(&thalweg_process.lost, __ATOMIC_ACQUIRE);
    __atomic_fetch_add(lost ? lost : &thalweg_process.no_lost, count, __ATOMIC_RELAXED);
}

THALWEG_COLD int thalweg_open_file(const char *path, int flags)
{
    return (int)syscall(SYS_openat, THALWEG_HERE, path, (long)(flags | 02000000 /* close on exec */), 0600L);
}

/* Reads the beginning of a file as a text. */
THALWEG_COLD size_t thalweg_read_text(const char *path, char *text, size_t room)
{
    size_t count = 0;
    int file = thalweg_open_file(path, O_RDONLY);
    if (file >= 0) {
        for (;;) {
            long more = syscall(SYS_read, (long)file, text + count, (long)(room - 1 - count));
            if (more <= 0)
                break;
            count += (size_t)more;
        }
        syscall(SYS_close, (long)file);
    }
    text[count] = 0;
    return count;
}

/* A file that would become larger than its limit raises a signal, which is blocked here: it must be consumed,
 * because it would end the program. */
THALWEG_COLD void thalweg_take_signal(void)
{
    uint64_t signals = UINT64_C(1) << (25 - 1);
    struct timespec at_once = {0, 0};
    if (errno == EFBIG)
        syscall(SYS_rt_sigtimedwait, &signals, NULL, &at_once, 8L);
}

/* Makes a file of zeroes and maps it; its memory is reserved, so a store to it cannot fail. The map is at
 * `where` if that is not NULL. */
THALWEG_COLD unsigned char *thalweg_make_map(const char *path, size_t bytes, void *where)
{
    long address = -1;
    int file = thalweg_open_file(path, O_RDWR | O_CREAT | O_EXCL);
    if (file < 0)
        return NULL;
    if (syscall(SYS_fallocate, (long)file, 0L, 0L, (long)bytes) == 0) {
        address = syscall(SYS_mmap, where, (long)bytes, THALWEG_PROT_READ_WRITE,
                          THALWEG_MAP_SHARED | (where ? THALWEG_MAP_FIXED : 0), (long)file, 0L);
        if (address != -1 && syscall(SYS_madvise, address, (long)bytes, THALWEG_POPULATE_WRITE) != 0 && errno != EINVAL) {
            if (!where)
                syscall(SYS_munmap, address, (long)bytes);
            address = -1;
        }
    } else {
        thalweg_take_signal();
    }
    syscall(SYS_close, (long)file);
    if (address == -1) {
        syscall(SYS_unlinkat, THALWEG_HERE, path, 0L);
        return NULL;
    }
    return (unsigned char *)address;
}

/* Anonymous memory, filled with zeroes. */
THALWEG_COLD void *thalweg_memory(size_t bytes)
{
    long address = syscall(SYS_mmap, NULL, (long)bytes, THALWEG_PROT_READ_WRITE, THALWEG_MAP_PRIVATE_ANONYMOUS, -1L, 0L);
    return address == -1 ? NULL : (void *)address;
}

/* ---- catalogs ---- */

THALWEG_COLD void thalweg_record_raw(const void *bytes, size_t count)
{
    if (count > THALWEG_RECORD_BYTES - 16 - thalweg_record_bytes)
        count = THALWEG_RECORD_BYTES - 16 - thalweg_record_bytes;
    memcpy(thalweg_record + thalweg_record_bytes, bytes, count);
    thalweg_record_bytes += count;
}

THALWEG_COLD void thalweg_record_u32(uint32_t value) { thalweg_record_raw(&value, 4); }
THALWEG_COLD void thalweg_record_u64(uint64_t value) { thalweg_record_raw(&value, 8); }

THALWEG_COLD void thalweg_record_text(const char *text, size_t room)
{
    size_t count = text ? strlen(text) : 0;
    if (count > room) {
        count = room;
        while (count > 0 && ((unsigned char)text[count] & 0xc0) == 0x80)
            count--;
    }
    thalweg_record_u32((uint32_t)count);
    thalweg_record_raw(text, count);
}

/* Begins a record in the buffer, after the records that are already there unless `is_first`; returns its
   offset. */
THALWEG_COLD size_t thalweg_begin_record(int is_first)
{
    size_t at = is_first ? 0 : thalweg_record_bytes;
    memset(thalweg_record + at, 0, 16);
    thalweg_record_bytes = at + 16;
    return at;
}

THALWEG_COLD uint64_t thalweg_fnv(uint64_t hash, const unsigned char *bytes, size_t count)
{
    size_t n;
    for (n = 0; n < count; n++)
        hash = (hash ^ bytes[n]) * UINT64_C(0x100000001b3);
    return hash;
}

THALWEG_COLD void thalweg_seal_record(size_t at, uint32_t type)
{
    uint32_t bytes;
    uint64_t hash;
    while (thalweg_record_bytes % 8)
        thalweg_record[thalweg_record_bytes++] = 0;
    bytes = (uint32_t)(thalweg_record_bytes - at);
    hash = thalweg_fnv(UINT64_C(0xcbf29ce484222325), (const unsigned char *)&type, 4);
    hash = thalweg_fnv(hash, thalweg_record + at + 16, bytes - 16);
    memcpy(thalweg_record + at, &bytes, 4);
    memcpy(thalweg_record + at + 4, &type, 4);
    memcpy(thalweg_record + at + 8, &hash, 8);
}

/* Appends the record in memory to a catalog at once; a partial write, as on a full disk, is removed again. */
THALWEG_COLD int thalweg_append(const char *path)
{
    long done, before;
    int file = thalweg_open_file(path, O_WRONLY | O_APPEND);
    if (file < 0)
        return 0;
    before = syscall(SYS_lseek, (long)file, 0L, 2L);
    done = syscall(SYS_write, (long)file, thalweg_record, (long)thalweg_record_bytes);
    if (done != (long)thalweg_record_bytes) {
        thalweg_take_signal();
        if (before >= 0)
            syscall(SYS_ftruncate, (long)file, before);
    }
    syscall(SYS_close, (long)file);
    return done == (long)thalweg_record_bytes;
}

/* Makes a catalog without records. */
THALWEG_COLD int thalweg_make_catalog(const char *path, uint32_t writer)
{
    unsigned char header[THALWEG_CATALOG_HEADER];
    uint64_t magic = THALWEG_CATALOG_MAGIC_VALUE;
    uint32_t version = THALWEG_VERSION;
    long done;
    int file = thalweg_open_file(path, O_WRONLY | O_CREAT | O_EXCL);
    if (file < 0)
        return 0;
    memset(header, 0, sizeof header);
    memcpy(header, &magic, 8);
    memcpy(header + 8, &version, 4);
    memcpy(header + 16, &writer, 4);
    done = syscall(SYS_write, (long)file, header, (long)sizeof header);
    if (done != (long)sizeof header)
        thalweg_take_signal();
    syscall(SYS_close, (long)file);
    return done == (long)sizeof header;
}

THALWEG_COLD void thalweg_path(char *path, size_t room, const char *name)
{
    snprintf(path, room, "%s/%s", thalweg_process.path, name);
}

/* Appends the record in memory to the process's own catalog. */
THALWEG_COLD int thalweg_append_own(void)
{
    char path[4200];
    thalweg_path(path, sizeof path, "0000.catalog");
    if (!thalweg_append(path))
        return 0;
    thalweg_process.catalog_bytes += thalweg_record_bytes;
    return 1;
}

/* ---- the machine ---- */

/* The start time of a process, which is field 22 of /proc/PID/stat. */
THALWEG_COLD uint64_t thalweg_start_of(uint32_t pid)
{
    char path[64], line[1024], *at;
    int field;
    snprintf(path, sizeof path, "/proc/%u/stat", pid);
    thalweg_read_text(path, line, sizeof line);
    at = strrchr(line, ')');
    for (field = 2; at && field < 22; field++)
        at = strchr(at + 1, ' ');
    return at ? strtoull(at, NULL, 10) : 0;
}

THALWEG_COLD void thalweg_boot(unsigned char *id)
{
    char text[64];
    size_t n, digits = 0;
    memset(id, 0, 16);
    thalweg_read_text("/proc/sys/kernel/random/boot_id", text, sizeof text);
    for (n = 0; text[n] && digits < 32; n++) {
        int c = text[n], digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
        if (digit >= 0) {
            id[digits / 2] = (unsigned char)(id[digits / 2] << 4 | digit);
            digits++;
        }
    }
}

THALWEG_COLD uint64_t thalweg_real_ns(void)
{
    struct timespec time;
    clock_gettime(0 /* real */, &time);
    return (uint64_t)time.tv_sec * UINT64_C(1000000000) + (uint64_t)time.tv_nsec;
}

THALWEG_COLD void thalweg_random(void *bytes, size_t count)
{
    if (syscall(SYS_getrandom, bytes, (long)count, 0L) != (long)count) {
        uint64_t now = thalweg_real_ns() ^ (uint64_t)syscall(SYS_getpid) << 40;
        memcpy(bytes, &now, count < 8 ? count : 8);
    }
}

/* Chooses the clock and finds its frequency, as the Rust side does. */
THALWEG_COLD void thalweg_choose_clock(void)
{
    thalweg_process.is_monotonic = 1;
    thalweg_process.hz = UINT64_C(1000000000);
#if defined(__x86_64__)
    {
        unsigned a, b, c, d, leaves, is_virtual;
        char source[32];
        uint64_t ticks, begun, khz = 0;
        thalweg_read_text("/sys/devices/system/clocksource/clocksource0/current_clocksource", source, sizeof source);
        source[strcspn(source, "\n")] = 0;
        __cpuid(0x80000000u, a, b, c, d);
        if (a < 0x80000007u || !strcmp(source, "hpet") || !strcmp(source, "acpi_pm") || !strcmp(source, "jiffies") ||
            !strcmp(source, "refined-jiffies"))
            return;
        __cpuid(0x80000007u, a, b, c, d);
        if (!(d & 1u << 8))
            return;
        thalweg_process.is_monotonic = 0;
        __cpuid(1u, a, b, c, d);
        is_virtual = c >> 31;
        __cpuid(is_virtual ? 0x40000000u : 0u, leaves, b, c, d);
        if (is_virtual && leaves >= 0x40000010u && leaves < 0x40001000u) {
            __cpuid(0x40000010u, a, b, c, d);
            khz = a > 100000 ? a : 0;
        } else if (!is_virtual && leaves >= 0x15u) {
            __cpuid_count(0x15u, 0, a, b, c, d);
            khz = a && b && c ? (uint64_t)c * b / a / 1000 : 0;
        }
        if (khz) {
            thalweg_process.hz = khz * 1000;
            return;
        }
        begun = thalweg_monotonic();
        ticks = thalweg_now();
        while (thalweg_monotonic() - begun < 4000000)
            ;
        ticks = thalweg_now() - ticks;
        thalweg_process.hz = (uint64_t)((double)ticks * 1e9 / (double)(thalweg_monotonic() - begun));
    }
#endif
}

THALWEG_COLD void thalweg_anchor(size_t at)
{
    uint64_t before = thalweg_now(), monotonic = thalweg_monotonic(), after = thalweg_now();
    thalweg_store(thalweg_process.identity, at, before + (after - before) / 2);
    thalweg_store(thalweg_process.identity, at + 8, monotonic);
    thalweg_store(thalweg_process.identity, at + 16, thalweg_real_ns());
}

THALWEG_COLD void thalweg_put_text(size_t at, size_t room, const char *text)
{
    size_t count = strlen(text);
    if (count > room)
        count = room;
    thalweg_store(thalweg_process.identity, at, count);
    memcpy(thalweg_process.identity + at + 8, text, count);
}

#ifdef __cplusplus
}
#endif

#include "thalweg_space_made.h"

#endif
