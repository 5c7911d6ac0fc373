/* Calls functions at whose entry calls of a library are inserted.
 *   inserting LIBRARY THREADS
 * For the lines of standard input:
 *   run N      each thread calls step(n, 1) N times; answer: ran CALLS SUM WRONG, the sum of the first arguments
 *   signals N  the same, while a handler that a timer starts calls step as well; answer as of run, without the handler's calls
 *   wide N, real N, nested N  N calls of wide, of real, or of step by the library that holds its lock; answer as of run
 *   slow, fast the library's function waits, or does not any more; answer: set
 *   begin      a thread makes one call of step(0, 0), and is inside the library then; answer: begun
 *   state      answer: state CALLS SUM REAL, of the library
 */
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline, noclone))

static atomic_long sum, wrong, handled;

NOINLINE long step(long a, long b) { __asm__ volatile(""); return a * 3 + b; }
NOINLINE long wide(long a, long b, long c, long d, long e, long f)
{ __asm__ volatile(""); return a + 2 * b + 3 * c + 4 * d + 5 * e + 6 * f; }
NOINLINE double real(double a, double b) { __asm__ volatile(""); return a * b + 0.5; }

static void handler(int signal)
{
    (void)signal;
    handled++;
    wrong += step(7, 7) != 28;
}

static void *stepping(void *count)
{
    for (long n = 0; n < (long)count; n++) {
        wrong += step(n, 1) != 3 * n + 1;
        sum += n;
    }
    return NULL;
}

static void *one(void *unused) { wrong += step(0, 0) != 0; return unused; }

int main(int argc, char **argv)
{
    char line[100];
    void *library = dlopen(argv[1], RTLD_NOW);
    int threads = argc > 2 ? atoi(argv[2]) : 1;
    pthread_t ids[64], id;
    if (!library)
        return 1;
    long (*nested)(long, long) = dlsym(library, "nested");
    void (*set_slow)(int) = dlsym(library, "set_slow");
    int (*within)(void) = dlsym(library, "within");
    void (*state)(long *, double *) = dlsym(library, "state");
    ((void (*)(long (*)(long, long)))dlsym(library, "set_back"))(step);
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
    sigaction(SIGALRM, &action, NULL);
    puts("ready");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        long count = strchr(line, ' ') ? atol(strchr(line, ' ')) : 0, calls = count;
        sum = wrong = 0;
        if (!strncmp(line, "run", 3) || !strncmp(line, "signals", 7)) {
            struct itimerval timer = {{0, 300}, {0, 300}}, none = {{0, 0}, {0, 0}};
            if (line[0] == 's')
                setitimer(ITIMER_REAL, &timer, NULL);
            for (int n = 0; n < threads; n++)
                pthread_create(&ids[n], NULL, stepping, (void *)count);
            for (int n = 0; n < threads; n++)
                pthread_join(ids[n], NULL);
            setitimer(ITIMER_REAL, &none, NULL);
            calls *= threads;
            if (line[0] == 's' && !handled)
                calls = 0;
        } else if (!strncmp(line, "wide", 4)) {
            for (long n = 0; n < count; n++)
                wrong += wide(n, 1, 2, 3, 4, 5) != n + 2 + 6 + 12 + 20 + 30;
        } else if (!strncmp(line, "real", 4)) {
            for (long n = 0; n < count; n++)
                wrong += real(n, 2) != (double)n * 2 + 0.5;
        } else if (!strncmp(line, "nested", 6)) {
            for (long n = 0; n < count; n++)
                wrong += nested(n, 1) != 3 * n + 1;
        } else if (!strcmp(line, "slow\n") || !strcmp(line, "fast\n")) {
            set_slow(line[0] == 's');
            puts("set");
            fflush(stdout);
            continue;
        } else if (!strcmp(line, "begin\n")) {
            pthread_create(&id, NULL, one, NULL);
            while (!within())
                usleep(200);
            puts("begun");
            fflush(stdout);
            continue;
        } else {
            long words[2];
            double real_sum;
            state(words, &real_sum);
            printf("state %ld %ld %.1f\n", words[0], words[1], real_sum);
            fflush(stdout);
            continue;
        }
        printf("ran %ld %ld %ld\n", calls, (long)sum, (long)wrong);
        fflush(stdout);
    }
    return 0;
}
