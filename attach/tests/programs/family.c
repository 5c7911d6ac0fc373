/* A program whose first thread may end before the others, and whose children share its memory or not. Another thread answers the lines of
 * standard input:
 *   run N        calls work N times; answer: ran RESULT
 *   leave        the first thread ends (pthread_exit); answer: left
 *   begin        further threads call work all the time, until the program ends; answer: begun
 *   fork         a child calls work once and waits to be killed; answer: child PID
 *   share        a child that has the same memory (clone with CLONE_VM) waits for `go`; answer: child PID
 *   vfork        a child of vfork, which has the same memory, waits for `go`; answer: child PID
 *   stuck        a child of fork waits in vfork for a child of its own, which waits to be killed; answer: child PID
 *   go           the children that have the same memory end; answer: gone
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline, noclone))
enum { STACK_BYTES = 256 << 10 };

static atomic_int may_leave, may_go, sharing;
static pid_t volatile child;
static pthread_t vforking;

NOINLINE long work(long a) { __asm__ volatile("nop; nop; nop; nop; nop"); return a * 3; }
NOINLINE long other(long a) { __asm__ volatile("nop; nop; nop; nop; nop"); return a * 5; }

static void *working(void *unused)
{
    for (long n = 0;; n++)
        if (work(n) != 3 * n)
            abort();
    return unused;
}

static int shares(void *unused)
{
    (void)unused;
    while (!may_go)
        usleep(200);
    sharing = 0;
    _exit(0);
}

static void *vforks(void *unused)
{
    if (vfork() == 0) {
        child = getpid();
        while (!may_go)
            usleep(200);
        _exit(0);
    }
    return unused;
}

static void waits(void)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (;;)
        pause();
}

static int has_left(void)
{
    char line[400] = "";
    FILE *file = fopen("/proc/self/stat", "r");
    int is_read = file && fgets(line, sizeof line, file);
    fclose(file);
    return is_read && strstr(line, ") Z");
}

static void *answering(void *unused)
{
    char line[100];
    pthread_t id;
    puts("ready");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        line[strcspn(line, "\n")] = 0;
        if (!strncmp(line, "run ", 4)) {
            long sum = 0;
            for (long n = 0; n < atol(line + 4); n++)
                sum += work(n);
            printf("ran %ld\n", sum);
        } else if (!strcmp(line, "leave")) {
            may_leave = 1;
            while (!has_left())
                usleep(200);
            puts("left");
        } else if (!strcmp(line, "begin")) {
            for (int n = 0; n < 3; n++)
                pthread_create(&id, NULL, working, NULL);
            puts("begun");
        } else if (!strcmp(line, "fork")) {
            if ((child = fork()) == 0) {
                work(1);
                waits();
            }
            printf("child %d\n", child);
        } else if (!strcmp(line, "share")) {
            char *stack = malloc(STACK_BYTES);
            sharing = 1;
            may_go = 0;
            child = clone(shares, stack + STACK_BYTES, CLONE_VM | SIGCHLD, NULL);
            printf("child %d\n", child);
        } else if (!strcmp(line, "vfork")) {
            may_go = child = 0;
            pthread_create(&vforking, NULL, vforks, NULL);
            while (!child)
                usleep(200);
            printf("child %d\n", child);
        } else if (!strcmp(line, "stuck")) {
            int ends[2];
            char byte = 0;
            if (pipe(ends))
                return NULL;
            if ((child = fork()) == 0) {
                prctl(PR_SET_PDEATHSIG, SIGKILL);
                if (vfork() == 0) {
                    if (write(ends[1], &byte, 1) != 1)
                        _exit(1);
                    waits();
                }
                _exit(0);
            }
            if (read(ends[0], &byte, 1) != 1)
                return NULL;
            printf("child %d\n", child);
        } else if (!strcmp(line, "go")) {
            may_go = 1;
            if (vforking)
                pthread_join(vforking, NULL);
            vforking = 0;
            while (sharing)
                usleep(200);
            puts("gone");
        }
        fflush(stdout);
    }
    exit(0);
    return unused;
}

int main(void)
{
    pthread_t id;
    signal(SIGCHLD, SIG_IGN);
    if (pthread_create(&id, NULL, answering, NULL))
        return 1;
    while (!may_leave)
        usleep(200);
    pthread_exit(NULL);
}
