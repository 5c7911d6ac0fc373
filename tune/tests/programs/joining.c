/* Hosts join a virtual machine of PVM while tasks send each other ints: joining HOST ROUNDS [wait]. In each
 * round the first task waits until its messages are raw, and with `wait` until the file that the variable STOP
 * names comes into being. It prints a line of the round's number and two zeros, adds the host, starts a task
 * there, and sends it a message, as does another task that never stopped sending. The receiver reports in which
 * encodings the two messages came. The next line has the number of the round and the two encodings. */
#include <pvm3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { WORK = 1, ECHOED, FIRST, REPORT, TO, READY, END };
enum { XDR = 0x10000000, COUNT = 25000, PATIENCE_S = 90 };

static int array[COUNT];

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}

static int encoding_of(int buffer) {
    struct pvmminfo info;
    return pvm_getminfo(buffer, &info) < 0 ? -1 : info.enc;
}

/* Begins a message, and returns its encoding. */
static int begin_message(void) { return encoding_of(pvm_initsend(PvmDataDefault)); }

static void send_array(int to, int tag) {
    begin_message();
    pvm_pkint(array, COUNT, 1);
    if (pvm_send(to, tag) < 0) exit(3);
}

static void receive(int from, int tag) {
    if (pvm_recv(from, tag) < 0) exit(3);
}

/* Sends back what comes. */
static void echo(int parent) {
    for (;;) {
        int bytes, tag, task;
        pvm_bufinfo(pvm_recv(parent, -1), &bytes, &tag, &task);
        if (tag != WORK) return;
        pvm_upkint(array, COUNT, 1);
        send_array(parent, ECHOED);
    }
}

/* Sends itself messages, and a message to each task whose number comes. */
static void be_busy(int parent) {
    for (;;) {
        send_array(pvm_mytid(), WORK);
        receive(pvm_mytid(), WORK);
        if (pvm_nrecv(parent, END) > 0) return;
        if (pvm_nrecv(parent, TO) > 0) {
            int task;
            pvm_upkint(&task, 1, 1);
            send_array(task, FIRST);
        }
    }
}

/* Reports the encodings in which two messages come: from its parent, and from another task. */
static void report(int parent) {
    int encodings[2] = {0, 0};
    for (int message = 0; message < 2; message++) {
        int bytes, tag, task, buffer = pvm_recv(-1, FIRST);
        pvm_bufinfo(buffer, &bytes, &tag, &task);
        encodings[task == parent ? 0 : 1] = encoding_of(buffer);
    }
    pvm_initsend(PvmDataDefault);
    pvm_pkint(encodings, 2, 1);
    pvm_send(parent, REPORT);
    /* The host is deleted next. */
    pvm_recv(parent, END);
}

static int started(char *path, char *role, char *host) {
    char *arguments[] = {role, 0};
    int task;
    if (pvm_spawn(path, arguments, host ? PvmTaskHost : 0, host, 1, &task) != 1) {
        printf("no task was spawned: %d\n", task);
        exit(1);
    }
    return task;
}

/* Whether the first task may go on. */
static int may_go_on(int waits) { return !waits || (getenv("STOP") && !access(getenv("STOP"), F_OK)); }

/* Plays ping-pong until `seen` messages in a row were begun raw. */
static void play_until_raw(int partner, int seen, int waits) {
    double begin = now();
    for (int raw = 0; raw < seen || !may_go_on(waits);) {
        int encoding = begin_message();
        raw = encoding == XDR ? 0 : raw + 1;
        pvm_pkint(array, COUNT, 1);
        pvm_send(partner, WORK);
        receive(partner, ECHOED);
        if (now() - begin > PATIENCE_S) {
            puts("messages did not become raw");
            exit(4);
        }
    }
}

static void play_round(int round, int waits, char *path, char *host, int partner, int busy) {
    int code = 0, count, kinds, encodings[2];
    struct pvmhostinfo *hosts;
    /* In some rounds the tuner still tries the encoding then, and in some it has kept it. */
    play_until_raw(partner, 20 + round * 2399 % 7000, waits);
    printf("%d 0 0\n", round);
    fflush(stdout);
    if (pvm_addhosts(&host, 1, &code) != 1 || code < 0) {
        printf("the host does not join: %d\n", code);
        exit(1);
    }
    int task = started(path, "report", host);
    send_array(task, FIRST);
    pvm_initsend(PvmDataDefault);
    pvm_pkint(&task, 1, 1);
    pvm_send(busy, TO);
    receive(task, REPORT);
    pvm_upkint(encodings, 2, 1);
    printf("%d %d %d\n", round, encodings[0], encodings[1]);
    fflush(stdout);
    pvm_delhosts(&host, 1, &code);
    do {
        usleep(10000);
        pvm_config(&count, &kinds, &hosts);
    } while (count > 1);
}

int main(int c, char **v) {
    int parent = pvm_parent();
    if (parent >= 0) {
        pvm_initsend(PvmDataDefault);
        pvm_send(parent, READY);
        if (!strcmp(v[1], "echo")) echo(parent);
        else if (!strcmp(v[1], "busy")) be_busy(parent);
        else report(parent);
        pvm_exit();
        return 0;
    }
    char path[4096];
    if (c < 3 || pvm_mytid() < 0 || !realpath(v[0], path)) return 1;
    int partner = started(path, "echo", 0), busy = started(path, "busy", 0);
    receive(partner, READY);
    receive(busy, READY);
    puts("0 0 0");
    fflush(stdout);
    for (int round = 1; round <= atoi(v[2]); round++) play_round(round, c > 3, path, v[1], partner, busy);
    pvm_initsend(PvmDataDefault);
    pvm_send(partner, END);
    pvm_send(busy, END);
    puts("done");
    pvm_exit();
    return 0;
}
