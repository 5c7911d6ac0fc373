/* Integer sort as the NAS Parallel Benchmarks specify it: keys from their generator, ranked ten times by
 * buckets, verified. `sort_mpi.c` and `sort_pvm.c` supply the processes, each of which has a part of the
 * keys.
 *
 * The rank of a key is the number of keys that are smaller. In each iteration two keys change, all keys are
 * ranked, and the ranks of five keys are compared with those that the specification states. After the last
 * iteration, the keys are sorted by their ranks, and their order, their number and their sums are verified.
 * Iterations after the tenth repeat the tenth. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { BUCKETS = 1024, TESTS = 5, ITERATIONS = 10 };

/* A class of the benchmark: it has 2^keys_log keys below 2^most_log. The keys at five places are tested: each
 * must have a rank that is computed from its number in `ranks` and the iteration. */
struct class {
    char name;
    int keys_log, most_log;
    int places[TESTS], ranks[TESTS];
};

static const struct class classes[] = {
    {'S', 16, 11, {48427, 17148, 23627, 62548, 4431}, {0, 18, 346, 64917, 65463}},
    {'W', 20, 16, {357773, 934767, 875723, 898999, 404505}, {1249, 11698, 1039987, 1043896, 1048018}},
    {'A', 23, 19, {2112377, 662041, 5336171, 3642833, 4250760}, {104, 17523, 123928, 8288932, 8388264}},
    {'B', 25, 21, {41869, 812306, 5102857, 18232239, 26860214}, {33422937, 10244, 59149, 33135281, 99}},
};

/* The rank that the key of a test must have in an iteration. */
static int expected(const struct class *of, int test, int iteration) {
    int rank = of->ranks[test];
    switch (of->name) {
    case 'S': return test <= 2 ? rank + iteration : rank - iteration;
    case 'W': return test < 2 ? rank + iteration - 2 : rank - iteration;
    case 'A': return test <= 2 ? rank + iteration - 1 : rank - (iteration - 1);
    default: return test == 1 || test == 2 || test == 4 ? rank + iteration : rank - iteration;
    }
}

/* The process's own number, the number of processes, and the operations that they carry out together. The
 * file that includes this one defines the operations. */
static int rank_own, ranks;
/* Adds each of `count` numbers up over all processes. */
static void sum_all(const int *own, int *sums, int count);
/* Sends each process its part of `from`; returns how many ints came into `into`, sorted by the processes from
 * which they came. */
static int exchange(const int *from, const int *starts, const int *counts, int *into, int room);

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e6 + t.tv_nsec / 1e3;
}

/* The generator of keys: x ← 5^13 x mod 2^46, divided by 2^46 to get a number between 0 and 1. */
static const uint64_t FACTOR = 1220703125, SEED = 314159265, MASK = (1ull << 46) - 1;

static uint64_t ahead(uint64_t steps) {
    uint64_t x = SEED, power = FACTOR;
    for (; steps; steps >>= 1, power = power * power & MASK)
        if (steps & 1) x = x * power & MASK;
    return x;
}

/* Generates the keys from the index `first` on. */
static void generate(const struct class *of, long first, long count, int *keys) {
    uint64_t x = ahead(4 * (uint64_t)first);
    double quarter = (double)(1 << of->most_log) / 4;
    for (long i = 0; i < count; i++) {
        double sum = 0;
        for (int j = 0; j < 4; j++) {
            x = x * FACTOR & MASK;
            sum += (double)x / (double)(1ull << 46);
        }
        keys[i] = (int)(quarter * sum);
    }
}

/* The data that a process holds. */
static int *keys, *grouped, *received, *counts;
static long keys_own, keys_first;
static int room, least, most;
static long before;

/* Divides the buckets among the processes: process `r` gets the buckets before `ends[r]` that no process with
 * a lower number gets. All processes get about the same number of keys. */
static void share(const int *sums, long all, int *ends) {
    long seen = 0;
    int bucket = 0;
    for (int r = 0; r < ranks; r++) {
        while (bucket < BUCKETS && (r == ranks - 1 || seen < all * (r + 1) / ranks)) seen += sums[bucket++];
        ends[r] = bucket;
    }
}

/* Ranks all keys: afterwards `received` has the keys whose values belong to this process, and `counts[k -
 * least]` is the number of these keys up to k. Returns the number of keys received. */
static int rank_keys(const struct class *of) {
    int shift = of->most_log - 10, own[BUCKETS] = {0}, sums[BUCKETS], at[BUCKETS], ends[ranks];
    for (long i = 0; i < keys_own; i++) own[keys[i] >> shift]++;
    for (int b = 0, sum = 0; b < BUCKETS; b++) {
        at[b] = sum;
        sum += own[b];
    }
    int starts[ranks], sizes[ranks];
    sum_all(own, sums, BUCKETS);
    share(sums, 1l << of->keys_log, ends);
    for (int r = 0; r < ranks; r++) {
        int begin = r ? ends[r - 1] : 0;
        starts[r] = begin < BUCKETS ? at[begin] : (int)keys_own;
        sizes[r] = (ends[r] < BUCKETS ? at[ends[r]] : (int)keys_own) - starts[r];
    }
    for (long i = 0; i < keys_own; i++) grouped[at[keys[i] >> shift]++] = keys[i];
    int first = rank_own ? ends[rank_own - 1] : 0;
    before = 0;
    for (int b = 0; b < first; b++) before += sums[b];
    least = first << shift;
    most = ends[rank_own] << shift;
    int came = exchange(grouped, starts, sizes, received, room);
    memset(counts, 0, (most - least) * sizeof *counts);
    for (int i = 0; i < came; i++) counts[received[i] - least]++;
    for (int k = 1; k < most - least; k++) counts[k] += counts[k - 1];
    return came;
}

/* For the tested keys whose values belong to this process, returns how many have the rank that they must
 * have. */
static int right(const struct class *of, int iteration) {
    int found = 0, key;
    for (int test = 0; test < TESTS; test++) {
        generate(of, of->places[test], 1, &key);
        if (key < least || key >= most) continue;
        long rank = before + (key > least ? counts[key - 1 - least] : 0);
        found += rank == expected(of, test, iteration);
    }
    return found;
}

/* Sorts the keys by their ranks, and verifies order, number and sums over all processes. */
static int is_sorted(const struct class *of, int came) {
    int *sorted = malloc((came + 1) * sizeof *sorted);
    uint64_t sum = 0, sum_sorted = 0;
    for (int i = came - 1; i >= 0; i--) sorted[--counts[received[i] - least]] = received[i];
    int wrong = 0;
    for (int i = 1; i < came; i++) wrong += sorted[i - 1] > sorted[i];
    for (long i = 0; i < keys_own; i++) sum += (uint64_t)keys[i] * keys[i];
    for (int i = 0; i < came; i++) {
        sum_sorted += (uint64_t)sorted[i] * sorted[i];
        wrong += sorted[i] < least || sorted[i] >= most;
    }
    free(sorted);
    uint64_t difference = sum - sum_sorted;
    /* The sums are added in parts of 16 bits, which are small enough to be added as ints. */
    int own[6] = {wrong, came}, all[6];
    for (int i = 0; i < 4; i++) own[2 + i] = (int)(difference >> (16 * i) & 0xffff);
    sum_all(own, all, 6);
    uint64_t rest = 0;
    for (int i = 0; i < 4; i++) rest += (uint64_t)all[2 + i] << (16 * i);
    return all[0] == 0 && all[1] == 1 << of->keys_log && rest == 0;
}

/* Makes room for the keys of this process: it has its part of all keys, and may get up to twice that part and
 * one bucket in an exchange. */
static void make_room(const struct class *of) {
    long all = 1l << of->keys_log;
    keys_first = all * rank_own / ranks;
    keys_own = all * (rank_own + 1) / ranks - keys_first;
    room = (int)(2 * keys_own + all / 64);
    keys = malloc(keys_own * sizeof *keys);
    grouped = malloc(keys_own * sizeof *grouped);
    received = malloc(room * sizeof *received);
    counts = malloc((sizeof *counts) << of->most_log);
    if (!keys || !grouped || !received || !counts) exit(4);
    generate(of, keys_first, keys_own, keys);
}

/* Ranks the keys `iterations` times; the first process prints the time of each iteration in microseconds.
 * Returns 0 if all results were right. */
static int sort(char name, int iterations) {
    const struct class *of = NULL;
    for (unsigned i = 0; i < sizeof classes / sizeof *classes; i++)
        if (classes[i].name == name) of = &classes[i];
    if (!of || iterations < 1) {
        if (!rank_own) puts("the first argument is a class, S, W, A or B, and iterations are 1 at least");
        return 1;
    }
    make_room(of);
    int came = 0, tests = 0, asked = 0;
    double begin = now();
    for (int iteration = 1, go = 1; go && iteration <= iterations; iteration++) {
        int step = iteration < ITERATIONS ? iteration : ITERATIONS;
        long places[] = {step, step + ITERATIONS}, values[] = {step, (1 << of->most_log) - step};
        for (int i = 0; i < 2; i++)
            if (places[i] >= keys_first && places[i] < keys_first + keys_own)
                keys[places[i] - keys_first] = (int)values[i];
        double start = now();
        came = rank_keys(of);
        tests += right(of, step);
        asked += TESTS;
        int stop = !rank_own && getenv("STOP") && !access(getenv("STOP"), F_OK), any;
        sum_all(&stop, &any, 1);
        go = !any;
        if (!rank_own) {
            printf("%.3f %d %.2f\n", (now() - begin) / 1e6, 1 << of->keys_log, now() - start);
            fflush(stdout);
        }
    }
    int all;
    sum_all(&tests, &all, 1);
    int is_right = is_sorted(of, came) && all == asked;
    if (!rank_own) {
        printf("%d of %d ranks are right\n", all, asked);
        puts(is_right ? "done" : "wrong");
        fflush(stdout);
    }
    return is_right ? 0 : 2;
}
