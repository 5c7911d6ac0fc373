/* MooBench's calls in C and C++: see Moo.java. moo SECONDS METHOD_NS DEPTH THREADS CLOCK FILE; probe.h
 * selects the probe of the method. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "probe.h"

#define LINEAR 2048
#define BUCKETS (LINEAR + 32 * 53)

struct calls {
    pthread_t thread;
    int seconds, depth, by_user_time;
    int64_t method_ns, kept;
    uint64_t *counts, *sums, cpu_ns;
    uint64_t histogram[BUCKETS];
};

static pthread_barrier_t barrier;

static int64_t now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

static int64_t user_time(void)
{
    struct rusage usage;
    getrusage(RUSAGE_THREAD, &usage);
    return (int64_t)usage.ru_utime.tv_sec * 1000000000 + usage.ru_utime.tv_usec * 1000;
}

/* The processor time of the thread, or of all threads of the process. */
static uint64_t processor_time(clockid_t clock)
{
    struct timespec time;
    clock_gettime(clock, &time);
    return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

static __attribute__((noinline)) int64_t monitored(int64_t nanoseconds, int depth)
{
    int64_t until, at;
    PROBE(depth);
    if (depth > 1)
        return monitored(nanoseconds, depth - 1) + 1;
    if (nanoseconds == 0)
        return depth;
    until = now() + nanoseconds;
    do
        at = now();
    while (at < until);
    return at;
}

static unsigned bucket(int64_t duration)
{
    unsigned power;
    if (duration < LINEAR)
        return duration < 0 ? 0 : (unsigned)duration;
    power = 63 - (unsigned)__builtin_clzll((unsigned long long)duration);
    return LINEAR + (power - 11) * 32 + (unsigned)(duration >> (power - 5) & 31);
}

static void *run(void *of)
{
    struct calls *calls = (struct calls *)of;
    int64_t start, before, duration, after;
    int second;
    pthread_barrier_wait(&barrier);
    start = now();
    for (second = 0; second < calls->seconds; second++) {
        do {
            before = calls->by_user_time ? user_time() : now();
            calls->kept += monitored(calls->method_ns, calls->depth);
            if (calls->by_user_time) {
                duration = user_time() - before;
                after = now();
            } else {
                after = now();
                duration = after - before;
            }
            calls->histogram[bucket(duration)]++;
            calls->sums[second] += (uint64_t)duration;
            calls->counts[second]++;
        } while (after < start + (int64_t)1000000000 * (second + 1));
        if (second + 1 == calls->seconds / 2) {
            memset(calls->histogram, 0, sizeof calls->histogram);
            calls->cpu_ns = processor_time(CLOCK_THREAD_CPUTIME_ID);
        }
    }
    calls->cpu_ns = processor_time(CLOCK_THREAD_CPUTIME_ID) - calls->cpu_ns;
    return NULL;
}

int main(int count, char **arguments)
{
    int threads, n, second, at;
    uint64_t process_ns;
    struct calls *all;
    FILE *out;
    if (count != 7) {
        fputs("moo SECONDS METHOD_NS DEPTH THREADS CLOCK FILE\n", stderr);
        return 2;
    }
    threads = atoi(arguments[4]);
    all = (struct calls *)calloc((size_t)threads, sizeof *all);
    pthread_barrier_init(&barrier, NULL, (unsigned)threads + 1);
    for (n = 0; n < threads; n++) {
        all[n].seconds = atoi(arguments[1]);
        all[n].method_ns = atoll(arguments[2]);
        all[n].depth = atoi(arguments[3]);
        all[n].by_user_time = !strcmp(arguments[5], "cpu");
        all[n].counts = (uint64_t *)calloc((size_t)all[n].seconds, 8);
        all[n].sums = (uint64_t *)calloc((size_t)all[n].seconds, 8);
        pthread_create(&all[n].thread, NULL, run, &all[n]);
    }
    pthread_barrier_wait(&barrier);
    sleep((unsigned)all[0].seconds / 2);
    process_ns = processor_time(CLOCK_PROCESS_CPUTIME_ID);
    for (n = 0; n < threads; n++)
        pthread_join(all[n].thread, NULL);
    process_ns = processor_time(CLOCK_PROCESS_CPUTIME_ID) - process_ns;
    out = fopen(arguments[6], "w");
    if (!out) {
        perror(arguments[6]);
        return 1;
    }
    fprintf(out, "process %llu\n", (unsigned long long)process_ns);
    for (n = 0; n < threads; n++) {
        fprintf(out, "cpu %d %llu\n", n, (unsigned long long)all[n].cpu_ns);
        for (second = 0; second < all[n].seconds; second++)
            fprintf(out, "bin %d %d %llu %llu\n", n, second, (unsigned long long)all[n].counts[second],
                    (unsigned long long)all[n].sums[second]);
        for (at = 0; at < BUCKETS; at++)
            if (all[n].histogram[at])
                fprintf(out, "bucket %d %d %llu\n", n, at, (unsigned long long)all[n].histogram[at]);
    }
    return fclose(out) != 0;
}
