/* Integer sort over PVM; usage: sort_pvm CLASS ITERATIONS TASKS ROUTE ENCODING FRAGMENT, where 0 for one of
 * the last three leaves PVM's own value. See keys.h. */
#include <pvm3.h>
#include "keys.h"

enum { BEGIN = 1, SUM, PART };

static int tasks[64], encoding;

static void begin_message(void) { pvm_initsend(encoding); }

static void check(int code) {
    /* Without a daemon of PVM there are no other tasks to sort with. */
    if (code < 0) exit(3);
}

static void sum_all(const int *own, int *sums, int count) {
    int other[count];
    for (int step = 1; step < ranks; step++) {
        begin_message();
        pvm_pkint((int *)own, count, 1);
        check(pvm_send(tasks[(rank_own + step) % ranks], SUM));
    }
    memcpy(sums, own, count * sizeof *sums);
    for (int r = 0; r < ranks; r++) {
        if (r == rank_own) continue;
        check(pvm_recv(tasks[r], SUM));
        pvm_upkint(other, count, 1);
        for (int i = 0; i < count; i++) sums[i] += other[i];
    }
}

static int exchange(const int *from, const int *starts, const int *counts, int *into, int room) {
    for (int step = 1; step < ranks; step++) {
        int to = (rank_own + step) % ranks, count = counts[to];
        begin_message();
        pvm_pkint(&count, 1, 1);
        pvm_pkint((int *)from + starts[to], count, 1);
        check(pvm_send(tasks[to], PART));
    }
    int sum = 0;
    for (int r = 0; r < ranks; r++) {
        int count = counts[r];
        if (r != rank_own) {
            check(pvm_recv(tasks[r], PART));
            pvm_upkint(&count, 1, 1);
        }
        if (sum + count > room) exit(5);
        if (r == rank_own) memcpy(into + sum, from + starts[r], count * sizeof *into);
        else pvm_upkint(into + sum, count, 1);
        sum += count;
    }
    return sum;
}

/* The first task, which has started the others, tells all tasks the ids of all. */
static int meet(int c, char **v) {
    int parent = pvm_parent();
    tasks[0] = pvm_mytid();
    if (parent >= 0) {
        check(pvm_recv(parent, BEGIN));
        pvm_upkint(&ranks, 1, 1);
        pvm_upkint(tasks, ranks, 1);
        int own = pvm_mytid();
        while (rank_own < ranks && tasks[rank_own] != own) rank_own++;
        return 1;
    }
    ranks = c > 3 ? atoi(v[3]) : 0;
    char path[4096];
    if (ranks < 1 || ranks > 64 || !realpath(v[0], path)) return 0;
    if (ranks > 1 && pvm_spawn(path, v + 1, 0, 0, ranks - 1, tasks + 1) != ranks - 1) return 0;
    pvm_initsend(PvmDataDefault);
    pvm_pkint(&ranks, 1, 1);
    pvm_pkint(tasks, ranks, 1);
    return ranks == 1 || pvm_mcast(tasks + 1, ranks - 1, BEGIN) >= 0;
}

int main(int c, char **v) {
    if (!meet(c, v)) {
        puts("no tasks were spawned: is the daemon there, and are there 1 to 64 tasks?");
        return 1;
    }
    if (c > 4 && atoi(v[4])) pvm_setopt(PvmRoute, atoi(v[4]));
    if (c > 5) encoding = atoi(v[5]);
    if (c > 6 && atoi(v[6])) pvm_setopt(PvmFragSize, atoi(v[6]));
    int code = sort(*v[1], atoi(v[2]));
    pvm_exit();
    return code;
}
