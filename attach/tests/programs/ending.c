/* Threads that end in the middle of calls: by pthread_exit, or because they are cancelled. For a line N on
 * standard input, N threads end in each of the two ways; the answer is "ended THREADS CLEANED", both counted
 * since the start. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#define NOINLINE __attribute__((noinline, noclone))

static atomic_long cleanups;

static void cleanup(void *unused) { (void)unused; cleanups++; }

NOINLINE long ending(long how)
{
    __asm__ volatile("");
    if (how)
        pthread_exit((void *)7L);
    for (;;) {
        pthread_testcancel();
        sched_yield();
    }
    return how;
}

NOINLINE long cleaned(long how)
{
    long result;
    pthread_cleanup_push(cleanup, NULL);
    result = ending(how) + 1;
    pthread_cleanup_pop(0);
    return result;
}

static void *thread(void *how) { return (void *)cleaned((long)how); }

int main(void)
{
    char line[100];
    long ended = 0;
    puts("ready");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        for (long n = 0; n < 2 * atol(line); n++) {
            pthread_t id;
            void *result;
            if (pthread_create(&id, NULL, thread, (void *)(n % 2)))
                return 1;
            if (n % 2 == 0)
                pthread_cancel(id);
            pthread_join(id, &result);
            ended += result == (n % 2 ? (void *)7L : PTHREAD_CANCELED);
        }
        printf("ended %ld %ld\n", ended, (long)cleanups);
        fflush(stdout);
    }
    return 0;
}
