/* A function with a probe, one with a probe that is off, one without, and two readings of the clock. Each line of standard input is a count; the answer
 * is the nanoseconds that so many calls took. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "thalweg_probe.h"

static uint64_t nanoseconds(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

__attribute__((noinline)) static void recorded(void)
{
    THALWEG_PROBE_AS(probe, "recorded");
    __asm__ volatile("");
}

__attribute__((noinline)) static void off(void)
{
    THALWEG_PROBE_AS(probe, "off");
    __asm__ volatile("");
}

__attribute__((noinline)) static void without(void) { __asm__ volatile(""); }

__attribute__((noinline)) static void clock_only(void)
{
    uint64_t begin = thalweg_now();
    __asm__ volatile("" : : "r"(begin));
    begin = thalweg_now();
    __asm__ volatile("" : : "r"(begin));
}

/* Switches off the probe of `off` by clearing the switches of this process, as `thalweg set` would do from
   another process. */
static void switch_off(void)
{
    uint32_t n;
    off();
    for (n = 1; n < thalweg_process.probes; n++)
        *thalweg_word(thalweg_process.switches[0], THALWEG_SWITCHES_WORDS + 8 * n) = 0;
}

int main(int count, char **arguments)
{
    char line[64];
    void (*work)(void) = without;
    if (count < 2)
        return 2;
    recorded();
    if (!strcmp(arguments[1], "recorded"))
        work = recorded;
    else if (!strcmp(arguments[1], "off"))
        work = off;
    else if (!strcmp(arguments[1], "clock"))
        work = clock_only;
    switch_off();
    while (fgets(line, sizeof line, stdin)) {
        uint64_t n, calls = strtoull(line, NULL, 10), begin, took;
        THALWEG_SPAN("outer");
        begin = nanoseconds();
        /* The functions are called by name and not by pointer, so that the compiler can optimise the calls as
           in other programs. */
        if (work == recorded)
            for (n = 0; n < calls; n++)
                recorded();
        else if (work == off)
            for (n = 0; n < calls; n++)
                off();
        else if (work == clock_only)
            for (n = 0; n < calls; n++)
                clock_only();
        else
            for (n = 0; n < calls; n++)
                without();
        took = nanoseconds() - begin;
        printf("%llu\n", (unsigned long long)took);
        fflush(stdout);
    }
    return 0;
}
