/* Measures calls of a function in a program of T threads, of which all but one rest. For each line N on
   standard input, makes N calls and prints the mean time of a call in ns. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline, noclone))

NOINLINE long work(long a, long b) { __asm__ volatile(""); return a * 3 + b; }
static long count;
static volatile long last;

NOINLINE void set_work(long a) { __asm__ volatile("" ::"r"(a)); last = a; }


static void *resting(void *unused) { (void)unused; for (;;) pause(); return NULL; }

int main(int argc, char **argv)
{
    char line[100];
    pthread_t id;
    for (int n = 1; n < (argc > 1 ? atoi(argv[1]) : 1); n++)
        pthread_create(&id, NULL, resting, NULL);
    puts("ready");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        struct timespec begin, end;
        long sum = 0;
        count = atol(line);
        clock_gettime(CLOCK_MONOTONIC, &begin);
        for (long n = 0; n < count; n++)
            sum += work(n, sum & 1);
        clock_gettime(CLOCK_MONOTONIC, &end);
        set_work(sum);
        printf("%.3f\n", ((end.tv_sec - begin.tv_sec) * 1e9 + (end.tv_nsec - begin.tv_nsec)) / count);
        fflush(stdout);
    }
    return 0;
}
