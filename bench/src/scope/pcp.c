/* Values in a memory-mapped file of Performance Co-Pilot (instances of one metric, because a file has 1,023
 * metrics at most), and a client of pmcd that fetches all values. For each number that is read from standard
 * input, the client fetches all values that many times, and prints the nanoseconds of one value. */
#include <pcp/pmapi.h>
#include <pcp/mmv_stats.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static double now_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1e9 + time.tv_nsec;
}

int main(int count_of_arguments, char **arguments) {
    int values = count_of_arguments > 1 ? atoi(arguments[1]) : 2240;
    mmv_instances_t *instances = calloc(values, sizeof *instances);
    void **cells = calloc(values, sizeof *cells);
    for (int n = 0; n < values; n++) {
        instances[n].internal = n;
        snprintf(instances[n].external, sizeof instances[n].external, "path %d", n);
    }
    mmv_indom_t domain = {.serial = 1, .count = values, .instances = instances, .shorttext = "paths", .helptext = "paths"};
    mmv_metric_t metric = {
        .name = "beat",
        .item = 1,
        .type = MMV_TYPE_U64,
        .semantics = MMV_SEM_COUNTER,
        .dimension = MMV_UNITS(0, 0, 1, 0, 0, 0),
        .indom = 1,
        .shorttext = "what went through a path",
        .helptext = "what went through a path",
    };
    void *map = mmv_stats_init("thalweg_bench", 0, MMV_FLAG_PROCESS, &metric, 1, &domain, 1);
    if (!map) {
        printf("no memory-mapped values can be made\n");
        return 1;
    }
    for (int n = 0; n < values; n++) {
        cells[n] = mmv_lookup_value_desc(map, metric.name, instances[n].external);
    }
    const char *server = getenv("THALWEG_BENCH_PMCD");
    const char *name = "mmv.thalweg_bench.beat";
    pmID id;
    int status = pmNewContext(PM_CONTEXT_HOST, server ? server : "local:");
    /* The agent of pmcd looks for new files only at intervals, so the name is looked up until the agent has
       found the file. */
    for (int turn = 0; status >= 0 && turn < 100; turn++) {
        int found = pmLookupName(1, &name, &id);
        if (found == 1) {
            break;
        }
        if (turn == 99) {
            status = found < 0 ? found : PM_ERR_NAME;
        }
        usleep(50000);
    }
    if (status < 0) {
        printf("pmcd: %s\n", pmErrStr(status));
        return 1;
    }
    int rounds;
    uint64_t beat = 0;
    while (scanf("%d", &rounds) == 1) {
        double took = 0;
        for (int round = 0; round < rounds; round++) {
            beat++;
            for (int n = 0; n < values; n++) {
                mmv_set_value(map, cells[n], (double)beat);
            }
            double begin = now_ns();
            pmResult *result;
            status = pmFetch(1, &id, &result);
            if (status < 0) {
                printf("%s\n", pmErrStr(status));
                return 1;
            }
            uint64_t sum = 0;
            pmValueSet *set = result->vset[0];
            for (int n = 0; n < set->numval; n++) {
                pmAtomValue value = {0};
                pmExtractValue(set->valfmt, &set->vlist[n], PM_TYPE_U64, &value, PM_TYPE_U64);
                sum += value.ull;
            }
            took += now_ns() - begin;
            pmFreeResult(result);
            if (sum != beat * values) {
                printf("the values add up to %llu\n", (unsigned long long)sum);
                return 1;
            }
        }
        printf("%f\n", took / rounds / values);
        fflush(stdout);
    }
    mmv_stats_stop("thalweg_bench", map);
    return 0;
}
