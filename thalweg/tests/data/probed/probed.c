/* Random calls with probes, in C and C++; what was called is written elsewhere as well, by other means.
 *
 * probed trees SEED COUNT THREADS TRUTH   random trees of calls, some of which hand work to other threads, or to later, or (in C) are left by longjmp();
 *                                         TRUTH.N has a line a call of thread N: the operations that enclose it, and how it ended
 * probed endless SEED 0 THREADS TRUTH     calls for ever; TRUTH has two counters a thread: calls begun, calls done
 * probed fork SEED COUNT 1 TRUTH          a fork in the middle of a call; TRUTH.1 is the child's
 * probed signals SEED COUNT 1 TRUTH       signal handlers that call interrupt calls; TRUTH.0 has how many calls there were
 * probed storm SEED COUNT THREADS TRUTH   likewise in several threads, with signals from another one; TRUTH has calls by operation
 * probed count SEED COUNT THREADS TRUTH   so many calls in each thread; a line on standard output after each tenth of them
 * probed many SEED COUNT 1 TRUTH          so many operations, a call of each; the names of some are long, and in any script
 * probed uneven SEED COUNT 1 TRUTH       calls that tell much and calls that tell little, for so many hundredths of a second, and so many more
 * probed off SEED COUNT 1 TRUTH           everything that probes can do, with the lock taken that only the making of things needs
 */
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
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

/* How deep calls are, and how many there are of a root. */
#define LEVELS 12
#define INSTANCES 4096
#define LATER 8

/* A call: its operation, and which one of its root it is. */
struct step {
    short operation, instance;
};

struct line {
    struct step path[64];
    int level;
    char how;
};

/* Work for later. */
struct later {
    uint64_t span;
    struct step path[64];
    int level, operation;
};

struct world {
    uint64_t random;
    FILE *truth;
    const char *name;
    struct step path[64];
    int level, budget, instances, handed, line_count, later_count;
    /* What was left by longjmp(), by instance. */
    char left[INSTANCES];
    struct line lines[INSTANCES];
    struct later later[LATER];
};
static __thread struct world *world;

static unsigned random_below(unsigned limit)
{
    world->random ^= world->random << 13;
    world->random ^= world->random >> 7;
    world->random ^= world->random << 17;
    return (unsigned)((world->random >> 11) % limit);
}

static void enter(int operation)
{
    struct step step = {(short)operation, (short)(world->instances < INSTANCES - 1 ? world->instances++ : INSTANCES - 1)};
    world->path[world->level++] = step;
}

static void leave(char how)
{
    struct line *line = &world->lines[world->line_count < INSTANCES - 1 ? world->line_count++ : INSTANCES - 1];
    memcpy(line->path, world->path, sizeof line->path);
    line->level = world->level--;
    line->how = how;
}

/* Writes what was called since the last time, without the calls that longjmp() left. */
static void flush(void)
{
    int n, at;
    for (at = 0; at < world->line_count; at++) {
        const struct line *line = &world->lines[at];
        const char *between = "";
        for (n = 0; n < line->level; n++) {
            if (world->left[line->path[n].instance])
                continue;
            fprintf(world->truth, "%sop%d", between, line->path[n].operation);
            between = "/";
        }
        fprintf(world->truth, " %c\n", line->how);
    }
    world->line_count = 0;
    memset(world->left, 0, sizeof world->left);
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

static void call(int (*operation)(void), int budget);
static void open_world(struct world *here, const char *truth, int number, uint64_t random);

/* What another thread is to do, in the trace of who said so. */
struct handed {
    uint64_t span, random;
    const struct world *from;
    int operation, number;
};

static void *work(void *of)
{
    struct handed *handed = (struct handed *)of;
    struct world *here = (struct world *)calloc(1, sizeof *here);
    open_world(here, handed->from->name, handed->number, handed->random);
    memcpy(here->path, handed->from->path, sizeof here->path);
    here->level = handed->from->level;
    /* No call of its own has the number of one that encloses it. */
    here->instances = handed->from->instances;
    thalweg_take_over_work(handed->span);
    call(operations[handed->operation], 20);
    flush();
    fclose(here->truth);
    free(here);
    return NULL;
}

/* Hands a call to another thread and waits. */
static void in_thread(void)
{
    static int numbers = 1000;
    struct handed handed = {thalweg_hand_over(), world->random * 31 + 7, world, (int)random_below(OPERATIONS), 0};
    pthread_t thread;
    handed.number = __atomic_add_fetch(&numbers, 1, __ATOMIC_RELAXED);
    world->handed++;
    if (pthread_create(&thread, NULL, work, &handed))
        abort();
    pthread_join(thread, NULL);
}

/* Hands a call to later: when the root has ended. */
static void for_later(void)
{
    struct later *later;
    if (world->later_count == LATER)
        return;
    later = &world->later[world->later_count++];
    later->span = thalweg_hand_over();
    memcpy(later->path, world->path, sizeof later->path);
    later->level = world->level;
    later->operation = (int)random_below(OPERATIONS);
    world->handed++;
}

#ifndef __cplusplus
/* Where longjmp() goes to; none where that is not to be. */
static __thread jmp_buf *back;
static __thread int handed_before;

/* A call that others come back to, past those that are under way. */
static int operation_9(void)
{
    jmp_buf here, *volatile outer = back;
    volatile int level = world->level, before = handed_before;
    THALWEG_PROBE_AS(probe, "op9");
    enter(9);
    handed_before = world->handed;
    back = &here;
    if (setjmp(here) == 0) {
        body();
    } else {
        /* Those above are left out. */
        while (world->level > level + 1)
            world->left[world->path[--world->level].instance] = 1;
    }
    back = outer;
    handed_before = before;
    if (random_below(2))
        body();
    leave('r');
    return 0;
}
#endif

static int body(void)
{
    unsigned n, count = world->level < LEVELS && world->budget > 0 ? random_below(4) : 0;
    for (n = 0; n < count; n++) {
        int failed = 0;
        world->budget--;
        if (random_below(60) == 0) {
            in_thread();
            continue;
        }
        if (random_below(40) == 0) {
            for_later();
            continue;
        }
#ifndef __cplusplus
        if (random_below(12) == 0) {
            operation_9();
            continue;
        }
        /* Where work was handed over since, whose trace it is would not be known. */
        if (back && world->handed == handed_before && random_below(25) == 0)
            longjmp(*back, 1);
#endif
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

static void call(int (*operation)(void), int budget)
{
    world->budget = budget;
#ifdef __cplusplus
    try {
        operation();
    } catch (int) {
    }
#else
    operation();
#endif
}

/* A root, and what it left for later: each is a trace of its own, which continues the root's. */
static void root(void)
{
    int n, level = world->level;
    call(operations[random_below(OPERATIONS)], 60);
    for (n = 0; n < world->later_count && level == 0; n++) {
        struct later *later = &world->later[n];
        memcpy(world->path, later->path, sizeof world->path);
        world->level = later->level;
        /* Its callers have ended: nothing of them is left out any more. */
        thalweg_take_over_work(later->span);
        call(operations[later->operation], 10);
        world->level = 0;
    }
    if (level == 0) {
        world->later_count = world->instances = world->handed = 0;
        flush();
    }
}

struct task {
    uint64_t seed;
    int number, count;
    const char *truth;
    volatile uint64_t *counters;
};

static void open_world(struct world *here, const char *truth, int number, uint64_t random)
{
    char path[4096];
    snprintf(path, sizeof path, "%s.%d", truth, number);
    here->truth = fopen(path, "a");
    here->name = truth;
    here->random = random | 1;
    world = here;
}

static struct world *world_of(const struct task *task)
{
    struct world *here = (struct world *)calloc(1, sizeof *here);
    open_world(here, task->truth, task->number, task->seed * UINT64_C(0x9e3779b97f4a7c15) + (uint64_t)task->number * 77 + 1);
    return here;
}

static void close_world(void)
{
    flush();
    fclose(world->truth);
    free(world);
}

static void *trees(void *of)
{
    struct task *task = (struct task *)of;
    int n;
    world_of(task);
    for (n = 0; n < task->count; n++)
        root();
    close_world();
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
    int n;
    world_of(task);
    one();
    signal(SIGALRM, handler);
    setitimer(ITIMER_REAL, &timer, NULL);
    for (n = 0; n < task->count || handled < 200; n++)
        one();
    signal(SIGALRM, SIG_IGN);
    fprintf(world->truth, "%llu\n", (unsigned long long)(1 + (uint64_t)n + handled));
    close_world();
}

/* Calls by operation: outer, one, handler, inner. */
static uint64_t stormed[4];
static volatile int storm_ends;

static void inner(void)
{
    THALWEG_PROBE_AS(probe, "inner");
    __atomic_fetch_add(&stormed[3], 1, __ATOMIC_RELAXED);
}

static void storm_handler(int number)
{
    THALWEG_PROBE_AS(probe, "handler");
    (void)number;
    __atomic_fetch_add(&stormed[2], 1, __ATOMIC_RELAXED);
    inner();
}

static void *stormy(void *of)
{
    int n, count = *(int *)of;
    for (n = 0; n < count; n++) {
        THALWEG_PROBE_AS(probe, "outer");
        one();
        one();
        THALWEG_COUNT("stormed", 1);
    }
    __atomic_fetch_add(&stormed[0], (uint64_t)n, __ATOMIC_RELAXED);
    __atomic_fetch_add(&stormed[1], 2 * (uint64_t)n, __ATOMIC_RELAXED);
    /* Who sends signals does so to threads that are. */
    while (!storm_ends)
        usleep(100);
    return NULL;
}

static void storm(struct task *task, int thread_count)
{
    pthread_t threads[64];
    struct sigaction action;
    char path[4096];
    FILE *truth;
    int n, sent;
    memset(&action, 0, sizeof action);
    action.sa_handler = storm_handler;
    /* A handler is interrupted by others, too. */
    action.sa_flags = SA_NODEFER;
    sigaction(SIGUSR1, &action, NULL);
    sigaction(SIGUSR2, &action, NULL);
    for (n = 0; n < thread_count; n++)
        pthread_create(&threads[n], NULL, stormy, &task->count);
    for (sent = 0; sent < 4000 || __atomic_load_n(&stormed[2], __ATOMIC_RELAXED) < 1500 || __atomic_load_n(&stormed[0], __ATOMIC_RELAXED) < (uint64_t)task->count * (uint64_t)thread_count; sent++) {
        pthread_kill(threads[sent % thread_count], sent % 3 ? SIGUSR1 : SIGUSR2);
        if (sent % 16 == 0)
            usleep(20);
    }
    storm_ends = 1;
    for (n = 0; n < thread_count; n++)
        pthread_join(threads[n], NULL);
    snprintf(path, sizeof path, "%s.0", task->truth);
    truth = fopen(path, "w");
    for (n = 0; n < 4; n++)
        fprintf(truth, "%llu\n", (unsigned long long)stormed[n]);
    fclose(truth);
}

static pthread_barrier_t all_counted;
static pthread_mutex_t first_call = PTHREAD_MUTEX_INITIALIZER;

static void *counting(void *of)
{
    struct task *task = (struct task *)of;
    int n;
    for (n = 0; n < task->count; n++) {
        /* A thread's first call reserves room for its element. Of two threads that reserve at the same time on a
         * disk with room for one, neither may get it. */
        if (n == 0)
            pthread_mutex_lock(&first_call);
        one();
        if (n == 0)
            pthread_mutex_unlock(&first_call);
        if ((n + 1) % (task->count / 10) == 0) {
            printf("%d\n", n + 1);
            fflush(stdout);
        }
    }
    /* All threads are there at once. */
    pthread_barrier_wait(&all_counted);
    return NULL;
}

/* Names in scripts of all sorts, and how long some are. */
static const char *const scripts[] = {"order", "gr\303\266\303\237e", "\320\267\320\260\320\272\320\260\320\267", "\344\276\241\346\240\274",
                                      "\330\263\330\271\330\261", "\360\235\222\263", "a\"b\\c/d", "two words, a\ttab (it)"};
#define SIGNATURE 10240

static void many(struct task *task)
{
    struct thalweg_operation *all = (struct thalweg_operation *)calloc((size_t)task->count, sizeof *all);
    struct thalweg_operation plain = THALWEG_OPERATION_OF("", "operation");
    int n;
    for (n = 0; n < task->count; n++) {
        int is_long = n % 10000 == 17;
        char *name = (char *)malloc(is_long ? SIGNATURE + 64 : 64);
        int count = snprintf(name, 64, "%s.%d", scripts[n % 8], n);
        struct thalweg_call call;
        if (is_long) {
            memset(name + count, 'x', SIGNATURE);
            name[SIGNATURE] = 0;
        }
        memcpy(&all[n], &plain, sizeof plain);
        all[n].name = name;
        thalweg_begin(&call, &all[n]);
        thalweg_end(&call);
    }
}

static volatile int spun;

static void telling(void)
{
    int n;
    THALWEG_PROBE_AS(probe, "telling");
    for (n = 0; n < 200000; n++)
        spun = n;
}

static void uneven(struct task *task)
{
    struct timespec begun, now;
    int n;
    clock_gettime(CLOCK_MONOTONIC, &begun);
    do {
        THALWEG_PROBE_AS(probe, "page");
        telling();
        for (n = 0; n < 20000; n++)
            one();
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while ((now.tv_sec - begun.tv_sec) * 100 + (now.tv_nsec - begun.tv_nsec) / 10000000 < task->count);
}

static void off(struct task *task)
{
    char text[THALWEG_TRACEPARENT_BYTES];
    int n;
    one();
    /* Whoever asks for it now waits for ever, or until the alarm. */
    alarm(20);
    __atomic_store_n(&thalweg_process.lock, 0x7fffffff, __ATOMIC_RELEASE);
    for (n = 0; n < task->count; n++) {
        struct thalweg_call call;
        static struct thalweg_operation pairs = THALWEG_OPERATION_OF("pairs", "operation");
        one();
        inner();
        thalweg_enter(&call, &pairs);
        thalweg_leave(&call);
        THALWEG_COUNT("items", n);
        THALWEG_GAUGE("queue", n);
        THALWEG_LOG(3, "text", 4);
        thalweg_take_over_work(thalweg_hand_over());
        thalweg_traceparent_out(text, 1);
        thalweg_traceparent_in("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", 1);
    }
    __atomic_store_n(&thalweg_process.lock, 0, __ATOMIC_RELEASE);
}

static void forked(struct task *task)
{
    pid_t child;
    world_of(task);
    root();
    {
        THALWEG_PROBE_AS(probe, "op0");
        enter(0);
        call(operation_1, 60);
        flush();
        fflush(world->truth);
        child = fork();
        if (child == 0) {
            fclose(world->truth);
            task->number = 1;
            world_of(task);
            enter(0);
            call(operation_2, 60);
        }
        leave('r');
    }
    root();
    close_world();
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
    void *(*run)(void *);
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
    if (!strcmp(mode, "storm")) {
        storm(&tasks[0], thread_count);
        return 0;
    }
    if (!strcmp(mode, "many")) {
        many(&tasks[0]);
        return 0;
    }
    if (!strcmp(mode, "uneven")) {
        uneven(&tasks[0]);
        return 0;
    }
    if (!strcmp(mode, "off")) {
        off(&tasks[0]);
        return 0;
    }
    pthread_barrier_init(&all_counted, NULL, (unsigned)thread_count);
    run = counters ? endless : !strcmp(mode, "count") ? counting : trees;
    /* Two waves: threads of the second take over the elements of the first. */
    for (wave = 0; wave < 2; wave++) {
        for (n = 0; n < thread_count; n++) {
            tasks[n].seed += 1000003;
            pthread_create(&threads[n], NULL, run, &tasks[n]);
        }
        for (n = 0; n < thread_count; n++)
            pthread_join(threads[n], NULL);
    }
    return 0;
}
