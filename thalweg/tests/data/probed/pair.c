/* The C side of traces that cross: a library that Rust calls and that calls back, and a program that sends a message (`pair send`: its traceparent goes
 * to standard output) or gets one (`pair receive TRACEPARENT`), or hands work to a thread (`pair hand`). */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "thalweg_probe.h"

void c_work(void (*inner)(void), int times)
{
    THALWEG_PROBE_AS(probe, "c_work");
    for (; times > 0; times--)
        inner();
}

static void *receiver(void *span)
{
    thalweg_take_over_work(*(uint64_t *)span);
    {
        THALWEG_SPAN("c_taken");
        THALWEG_SPAN("c_inner");
    }
    return NULL;
}

int main(int count, char **arguments)
{
    char text[THALWEG_TRACEPARENT_BYTES];
    if (count == 2 && !strcmp(arguments[1], "send")) {
        THALWEG_SPAN("c_send");
        THALWEG_SPAN("c_message");
        thalweg_traceparent_out(text, 12);
        puts(text);
    } else if (count == 3 && !strcmp(arguments[1], "receive")) {
        THALWEG_SPAN("c_receive");
        if (!thalweg_traceparent_in(arguments[2], 12))
            return 3;
    } else if (count == 2) {
        pthread_t thread;
        uint64_t span;
        THALWEG_SPAN("c_hand");
        span = thalweg_hand_over();
        pthread_create(&thread, NULL, receiver, &span);
        pthread_join(thread, NULL);
    }
    return 0;
}
