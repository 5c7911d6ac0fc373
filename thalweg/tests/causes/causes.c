/* Boxes that are slow for one known reason each. Each box takes the tag <n> of a record and emits the tag
 * unchanged. */
#define _GNU_SOURCE
#include "thalweg.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define BOX(name, cause)                                                                                             \
    static thalweg_status name(const void *data, thalweg_value *arguments, uint32_t count, thalweg_out *out) {         \
        int64_t n;                                                                                                   \
        (void)data, (void)count;                                                                                     \
        if (!thalweg_get_int(&arguments[0], &n)) return thalweg_fail(out, "<n>: expected an integer");               \
        cause;                                                                                                       \
        thalweg_emit(out, 1, 1, (thalweg_value[]){thalweg_int(n)});                                                  \
        return THALWEG_DONE;                                                                                         \
    }

/* Computes until the thread has used the processor for `us` microseconds. */
static void compute(long us) {
    struct timespec begun, now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begun);
    do clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    while ((now.tv_sec - begun.tv_sec) * 1000000 + (now.tv_nsec - begun.tv_nsec) / 1000 < us);
}

static void pause_for(long us) {
    nanosleep(&(struct timespec){.tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000}, NULL);
}

static pthread_mutex_t shared = PTHREAD_MUTEX_INITIALIZER, other = PTHREAD_MUTEX_INITIALIZER;
static _Atomic int spinning;

/* Holds a lock during a pause; a program does so that keeps a connection to a data base locked while it waits
 * for the answer. */
static void hold(long us) {
    pthread_mutex_lock(&shared);
    pause_for(us);
    pthread_mutex_unlock(&shared);
}

/* Holds a lock while it computes, so all other threads wait for the lock; the lock's holder differs from time
 * to time. */
static void compute_in_lock(long us) {
    pthread_mutex_lock(&shared);
    compute(us);
    pthread_mutex_unlock(&shared);
}

static void spin_for_lock(long us) {
    while (atomic_exchange(&spinning, 1));
    compute(us);
    atomic_store(&spinning, 0);
}

/* Takes two locks, the first long before the second, so that two threads that take them in opposite order
 * soon wait for each other. */
static void both(pthread_mutex_t *first, pthread_mutex_t *second) {
    pthread_mutex_lock(first);
    pause_for(300000);
    pthread_mutex_lock(second);
    pthread_mutex_unlock(second);
    pthread_mutex_unlock(first);
}

static void read_fifo(void) {
    static _Atomic int file = -1;
    char byte;
    int none = -1, opened = atomic_load(&file);
    if (opened < 0) {
        opened = open(getenv("CAUSES_FIFO"), O_RDONLY);
        if (!atomic_compare_exchange_strong(&file, &none, opened)) close(opened), opened = none;
    }
    if (read(opened, &byte, 1) < 0) perror("read");
}

static void write_fifo(void) {
    static _Atomic int file = -1;
    static char bytes[4096];
    int none = -1, opened = atomic_load(&file);
    if (opened < 0) {
        opened = open(getenv("CAUSES_FIFO"), O_WRONLY);
        if (!atomic_compare_exchange_strong(&file, &none, opened)) close(opened), opened = none;
    }
    if (write(opened, bytes, sizeof bytes) < 0) perror("write");
}

static void fault(size_t bytes) {
    char *memory = (char *)mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    size_t at;
    if (memory == MAP_FAILED) return;
    for (at = 0; at < bytes; at += 4096) memory[at] = 1;
    munmap(memory, bytes);
}

BOX(cheap, (void)0)
BOX(work, compute(200))
BOX(longer, compute(2000))
BOX(sleepy, pause_for(50000))
BOX(naps, pause_for(300))
BOX(locked, hold(500))
BOX(busy_lock, compute_in_lock(400))
BOX(spinlock, spin_for_lock(300))
BOX(forth, both(&shared, &other))
BOX(back, both(&other, &shared))
BOX(listens, read_fifo())
BOX(speaks, write_fifo())
BOX(faults, fault(4 << 20))
BOX(waits_for_more, if (n > 3) read_fifo())

#define ROW(name) THALWEG_BOX("box " #name " ((<n>) -> (<n>))", 1, name)

static const thalweg_box boxes[] = {
    ROW(cheap), ROW(work), ROW(longer), ROW(sleepy), ROW(naps), ROW(locked), ROW(busy_lock), ROW(spinlock),
    ROW(forth), ROW(back), ROW(listens), ROW(speaks), ROW(faults), ROW(waits_for_more),
};
THALWEG_LIBRARY(boxes)
