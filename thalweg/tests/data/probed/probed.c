/* Random calls with probes, in C and C++; what was called is written elsewhere as well, by other means.
 *
 * probed trees SEED COUNT THREADS TRUTH   random trees of calls; TRUTH.N has a line a call of thread N: the operations that enclose it, and how it ended
 * probed endless SEED 0 THREADS TRUTH     calls for ever; TRUTH has two counters a thread: calls begun, calls done
 * probed fork SEED COUNT 1 TRUTH          a fork in the middle of a call; TRUTH.1 is the child's
 * probed signals SEED COUNT 1 TRUTH       signal handlers that call interrupt calls; TRUTH.0 has how many calls there were
 */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "thalweg_probe.h"

#define OPERATIONS 8

struct world {
    uint64_t random;
    FILE *truth;
    int path[64], level, budget;
};
static __thread struct world *world;

static unsigned random_below(unsigned limit)
{
    world->random ^= world->random << 13;
    world->random ^= world->random >> 7;
    world->random ^= world->random << 17;
    return (unsigned)((world->random >> 11) % limit);
}

static void enter(int operation) { world->path[world->level++] = operation; }

static void leave(char how)
{
    int n;
    for (n = 0; n < world->level; n++)
        fprintf(world->truth, "%sop%d", n ? "/" : "", world->path[n]);
    fprintf(world->truth, " %c\n", how);
    world->level--;
}

static int body(void);

#ifdef __cplusplus
/* Calls that return while an exception passes by. */
struct Cleaner {
    ~Cleaner()
    {
        THALWEG_PROBE_AS(probe, "op8");
        enter(8);
        leave('r');
    }
};

#define OPERATION(n)                                                                                                                     \
    static int operation_##n()                                                                                                           \
    {                                                                                                                                    \
        THALWEG_PROBE_AS(probe, "op" #n);                                                                                                \
        enter(n);                                                                                                                        \
        try {                                                                                                                            \
            int failed = body();                                                                                                         \
            if (failed)                                                                                                                  \
                probe.fail();                                                                                                            \
            leave(failed ? 'f' : 'r');                                                                                                   \
            return failed;                                                                                                               \
        } catch (int) {                                                                                                                  \
            leave('u');                                                                                                                  \
            throw;                                                                                                                       \
        }                                                                                                                                \
    }
#else
#define OPERATION(n)                                                                                                                     \
    static int operation_##n(void)                                                                                                       \
    {                                                                                                                                    \
        int failed;                                                                                                                      \
        THALWEG_PROBE_AS(probe, "op" #n);                                                                                                \
        enter(n);                                                                                                                        \
        failed = body();                                                                                                                 \
        if (failed)                                                                                                                      \
            thalweg_fail(&probe);                                                                                                        \
        leave(failed ? 'f' : 'r');                                                                                                       \
        return failed;                                                                                                                   \
    }
#endif

OPERATION(0)
OPERATION(1)
OPERATION(2)
OPERATION(3)
OPERATION(4)
OPERATION(5)
OPERATION(6)
OPERATION(7)

static int (*const operations[OPERATIONS])(void) = {operation_0, operation_1, operation_2, operation_3,
                                                    operation_4, operation_5, operation_6, operation_7};

static int body(void)
{
    unsigned n, count = world->level < 12 && world->budget > 0 ? random_below(4) : 0;
    for (n = 0; n < count; n++) {
        int failed = 0;
        world->budget--;
#ifdef __cplusplus
        if (random_below(3) == 0) {
            try {
                Cleaner cleaner;
                failed = operations[random_below(OPERATIONS)]();
            } catch (int) {
                if (random_below(2))
                    throw;
            }
        } else
#endif
            failed = operations[random_below(OPERATIONS)]();
        if (failed && random_below(2))
            return 1;
    }
#ifdef __cplusplus
    if (random_below(8) == 0)
        throw 1;
#endif
    return random_below(10) == 0;
}

static void call(int (*operation)(void))
{
    world->budget = 60;
#ifdef __cplusplus
    try {
        operation();
    } catch (int) {
    }
#else
    operation();
#endif
}

static void root(void) { call(operations[random_below(OPERATIONS)]); }

struct task {
    uint64_t seed;
    int number, count;
    const char *truth;
    volatile uint64_t *counters;
};

static void open_world(struct world *here, const struct task *task)
{
    char path[4096];
    memset(here, 0, sizeof *here);
    snprintf(path, sizeof path, "%s.%d", task->truth, task->number);
    here->truth = fopen(path, "a");
    here->random = task->seed * UINT64_C(0x9e3779b97f4a7c15) + (uint64_t)task->number * 77 + 1;
    world = here;
}

static void *trees(void *of)
{
    struct task *task = (struct task *)of;
    struct world here;
    int n;
    open_world(&here, task);
    for (n = 0; n < task->count; n++)
        root();
    fclose(here.truth);
    return NULL;
}

static void one(void)
{
    THALWEG_PROBE_AS(probe, "one");
}

static void *endless(void *of)
{
    struct task *task = (struct task *)of;
    volatile int pause;
    for (;;) {
        task->counters[0] = task->counters[0] + 1;
        one();
        task->counters[1] = task->counters[1] + 1;
        /* Not so many that the ring comes around at once. */
        for (pause = 0; pause < 3000; pause++)
            ;
    }
    return NULL;
}

static volatile uint64_t handled;

static void handler(int number)
{
    (void)number;
    one();
    handled = handled + 1;
}

static void signals(struct task *task)
{
    struct itimerval timer = {{0, 50}, {0, 50}};
    struct world here;
    int n;
    open_world(&here, task);
    one();
    signal(SIGALRM, handler);
    setitimer(ITIMER_REAL, &timer, NULL);
    for (n = 0; n < task->count || handled < 200; n++)
        one();
    signal(SIGALRM, SIG_IGN);
    fprintf(here.truth, "%llu\n", (unsigned long long)(1 + (uint64_t)n + handled));
    fclose(here.truth);
}

static void forked(struct task *task)
{
    struct world here;
    pid_t child;
    open_world(&here, task);
    root();
    {
        THALWEG_PROBE_AS(probe, "op0");
        enter(0);
        call(operation_1);
        fflush(here.truth);
        child = fork();
        if (child == 0) {
            fclose(here.truth);
            task->number = 1;
            open_world(&here, task);
            enter(0);
            call(operation_2);
        }
        leave('r');
    }
    root();
    fclose(here.truth);
    if (child == 0)
        exit(0);
    waitpid(child, NULL, 0);
}

int main(int count, char **arguments)
{
    struct task tasks[64];
    pthread_t threads[64];
    const char *mode = arguments[1], *truth = arguments[5];
    int n, wave, thread_count = atoi(arguments[4]);
    volatile uint64_t *counters = NULL;
    if (count != 6)
        return 2;
    if (!strcmp(mode, "endless")) {
        int file = open(truth, O_RDWR);
        counters = (volatile uint64_t *)mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    }
    for (n = 0; n < thread_count; n++) {
        tasks[n].seed = (uint64_t)atoll(arguments[2]);
        tasks[n].number = n;
        tasks[n].count = atoi(arguments[3]);
        tasks[n].truth = truth;
        tasks[n].counters = counters + 2 * n;
    }
    if (!strcmp(mode, "fork")) {
        forked(&tasks[0]);
        return 0;
    }
    if (!strcmp(mode, "signals")) {
        signals(&tasks[0]);
        return 0;
    }
    /* Two waves: threads of the second take over the elements of the first. */
    for (wave = 0; wave < 2; wave++) {
        for (n = 0; n < thread_count; n++) {
            tasks[n].seed += 1000003;
            pthread_create(&threads[n], NULL, counters ? endless : trees, &tasks[n]);
        }
        for (n = 0; n < thread_count; n++)
            pthread_join(threads[n], NULL);
    }
    return 0;
}
