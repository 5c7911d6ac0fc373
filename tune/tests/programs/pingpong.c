/* Two tasks of PVM send each other an array of ints: pingpong SECONDS ROUTE ENCODING FRAGMENT DESCRIPTORS
 * BYTES ..., where SECONDS is the time for each size. Each line of output has the time, the number of bytes,
 * and the duration of a round trip, in microseconds. The program ends earlier if the file that the variable
 * STOP names comes into being. */
#include <pvm3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e6 + t.tv_nsec / 1e3;
}

static int array[2 << 20];

/* Sends the first `count` ints, in a message of its own. */
static void send(int to, int tag, int count, int encoding) {
    pvm_initsend(encoding);
    pvm_pkint(&count, 1, 1);
    pvm_pkint(array, count, 1);
    pvm_send(to, tag);
}

static int receive(int from, int *tag) {
    int bytes, task, count, buffer = pvm_recv(from, -1);
    /* Without a daemon of PVM there is no partner. */
    if (buffer < 0) exit(3);
    pvm_bufinfo(buffer, &bytes, tag, &task);
    pvm_upkint(&count, 1, 1);
    pvm_upkint(array, count, 1);
    return count;
}

static void set(char **v) {
    if (atoi(v[0])) pvm_setopt(PvmRoute, atoi(v[0]));
    if (atoi(v[2])) pvm_setopt(PvmFragSize, atoi(v[2]));
}

int main(int c, char **v) {
    int parent = pvm_parent(), tag, task;
    if (parent >= 0) {
        int encoding = atoi(v[2]);
        set(v + 1);
        for (;;) {
            int count = receive(parent, &tag);
            if (tag == 9) break;
            send(parent, 2, count, encoding);
        }
        pvm_exit();
        return 0;
    }

    double seconds = atof(v[1]);
    set(v + 2);
    int encoding = atoi(v[3]);
    if (atoi(v[5])) {
        struct rlimit limit;
        getrlimit(RLIMIT_NOFILE, &limit);
        limit.rlim_cur = atoi(v[5]);
        setrlimit(RLIMIT_NOFILE, &limit);
    }
    char *arguments[] = {v[2], v[3], v[4], 0};
    char path[4096];
    if (!realpath(v[0], path) || pvm_spawn(path, arguments, 0, 0, 1, &task) != 1) {
        puts("no task was spawned");
        return 1;
    }
    double begin = now(), line = begin;
    int is_stopped = 0;
    for (int phase = 6; phase < c; phase++) {
        int count = atoi(v[phase]) / 4;
        double end = now() + seconds * 1e6;
        long rounds = 0;
        line = now();
        while (now() < end && !is_stopped) {
            send(task, 1, count, encoding);
            if (receive(task, &tag) != count) return 2;
            rounds++;
            if (now() - line > 2e5) {
                printf("%.3f %d %.2f\n", (now() - begin) / 1e6, count * 4, (now() - line) / rounds);
                fflush(stdout);
                line = now();
                rounds = 0;
                is_stopped = getenv("STOP") && !access(getenv("STOP"), F_OK);
            }
        }
    }
    send(task, 9, 1, encoding);
    puts("done");
    pvm_exit();
    return 0;
}
