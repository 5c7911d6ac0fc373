/* LTTng-UST's event with one number. For each count on standard input, records that many events and prints
   the nanoseconds that they took. */
#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#define LTTNG_UST_TRACEPOINT_DEFINE
#include "one.h"

#include <stdio.h>
#include <time.h>

static double now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1e9 + now.tv_nsec;
}

int main(void) {
    unsigned long count;
    while (scanf("%lu", &count) == 1) {
        if (!lttng_ust_tracepoint_enabled(thalweg_bench, one)) {
            puts("the session does not record the event");
            return 1;
        }
        double begin = now_ns();
        for (unsigned long number = 0; number < count; number++)
            lttng_ust_tracepoint(thalweg_bench, one, number);
        printf("%.0f\n", now_ns() - begin);
        fflush(stdout);
    }
    return 0;
}
