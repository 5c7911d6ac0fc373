/* A master of PVM hands out work to workers in units: farm SECONDS WORKERS UNIT FIRST ITEMS MICROS, where UNIT is the
 * number of items of a unit, FIRST the part of its even share in percent that each worker gets in one piece at the
 * beginning of a round, ITEMS the number of items of a round, and MICROS the average time of an item. A worker sleeps
 * as long as its unit takes, as if it computed on a machine of its own. Each line of output has the time, the items of a unit, and the items per second. The program ends earlier if the file that the
 * variable STOP names comes into being. */
#include <pvm3.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

/* What may be tuned. */
int unit_items = 1;
int first_percent = 0;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e6 + t.tv_nsec / 1e3;
}

/* The time of an item in nanoseconds: between half and one and a half of the average, and more at the end of a
 * round. */
static long time_of(int item, int items, int micros) {
    long hash = (item * 2654435761u) >> 24;
    return micros * 1000L * (128 + 128L * item / items + hash - 128) / 255;
}

static void work(int master) {
    int what[4];
    while (pvm_recv(master, -1) > 0) {
        pvm_upkint(what, 4, 1);
        if (what[1] == 0) break;
        double begin = now();
        long sum = 0;
        for (int item = what[0]; item < what[0] + what[1]; item++) sum += time_of(item, what[2], what[3]);
        struct timespec time = {sum / 1000000000, sum % 1000000000};
        nanosleep(&time, 0);
        int result[2] = {what[1], (int)(now() - begin)};
        pvm_initsend(PvmDataDefault);
        pvm_pkint(result, 2, 1);
        pvm_send(master, 2);
    }
    pvm_exit();
}

static void hand_out(int worker, int from, int count, int items, int micros) {
    int what[4] = {from, count, items, micros};
    pvm_initsend(PvmDataDefault);
    pvm_pkint(what, 4, 1);
    pvm_send(worker, 1);
}

static long rounds, items_done, micros_sum;

/* A round of so many items begins, with so many workers. */
__attribute__((noipa)) void begin_round(int items, int workers) {
    rounds += items > 0 && workers > 0;
}

/* A worker has computed so many items, and needed so many microseconds for them. */
__attribute__((noipa)) void take_result(int items, int micros) {
    items_done += items;
    micros_sum += micros;
}

/* Hands out all items of a round, and waits for all results. */
static void play_round(const int *worker, int workers, int items, int micros) {
    int next = 0, open = 0;
    begin_round(items, workers);
    int first = (int)((long)items * first_percent / 100 / workers);
    for (int w = 0; w < workers && next < items; w++, open++) {
        int count = first > unit_items ? first : unit_items;
        if (count > items - next) count = items - next;
        hand_out(worker[w], next, count, items, micros);
        next += count;
    }
    for (; open > 0; open--) {
        int result[2], bytes, tag, from, buffer = pvm_recv(-1, 2);
        if (buffer < 0) exit(3);
        pvm_bufinfo(buffer, &bytes, &tag, &from);
        pvm_upkint(result, 2, 1);
        take_result(result[0], result[1]);
        if (next < items) {
            int count = unit_items < 1 ? 1 : unit_items > items - next ? items - next : unit_items;
            hand_out(from, next, count, items, micros);
            next += count;
            open++;
        }
    }
}

int main(int c, char **v) {
    if (pvm_parent() >= 0) {
        work(pvm_parent());
        return 0;
    }
    if (c < 7) return 4;
    double seconds = atof(v[1]);
    int workers = atoi(v[2]), items = atoi(v[5]), micros = atoi(v[6]), worker[64];
    unit_items = atoi(v[3]);
    first_percent = atoi(v[4]);
    char path[4096];
    if (workers > 64 || !realpath(v[0], path) || pvm_spawn(path, 0, 0, 0, workers, worker) != workers) {
        puts("no workers were spawned");
        return 1;
    }
    double begin = now(), line = begin;
    long before = 0;
    int is_stopped = 0;
    while (now() < begin + seconds * 1e6 && !is_stopped) {
        play_round(worker, workers, items, micros);
        if (items_done != rounds * items) return 2;
        if (now() - line > 2e5) {
            printf("%.3f %d %.0f\n", (now() - begin) / 1e6, unit_items, (items_done - before) / ((now() - line) / 1e6));
            fflush(stdout);
            line = now();
            before = items_done;
            is_stopped = getenv("STOP") && !access(getenv("STOP"), F_OK);
        }
    }
    for (int w = 0; w < workers; w++) hand_out(worker[w], 0, 0, 0, 0);
    puts("done");
    pvm_exit();
    return 0;
}
