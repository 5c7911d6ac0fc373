/* The least that stopping all threads of a process takes, without anything else: `stopping PID ROUNDS` interrupts all threads, waits until they
 * have stopped, reads their registers and lets them continue, and prints the median of the times of the rounds in ms, after `ready`. The tracer
 * has the lowest real-time priority if it may, and sleeps for 5 us between its looks, as the attachment's does.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>

enum { THREADS_MAX = 1024 };

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1e3 + time.tv_nsec / 1e6;
}

static int compared(const void *one, const void *other)
{
    double a = *(const double *)one, b = *(const double *)other;
    return (a > b) - (a < b);
}

static double once(const char *tasks)
{
    int ids[THREADS_MAX], count = 0;
    struct user_regs_struct registers;
    struct dirent *entry;
    DIR *list = opendir(tasks);
    while (list && (entry = readdir(list)) && count < THREADS_MAX)
        if (atoi(entry->d_name))
            ids[count++] = atoi(entry->d_name);
    closedir(list);
    for (int n = 0; n < count; n++)
        if (ptrace(PTRACE_SEIZE, ids[n], 0, 0))
            exit(1);
    double begin = now();
    for (int n = 0; n < count; n++)
        ptrace(PTRACE_INTERRUPT, ids[n], 0, 0);
    for (int left = count; left;) {
        struct timespec moment = {0, 5000};
        siginfo_t about = {0};
        if (waitid(P_ALL, 0, &about, WSTOPPED | WNOHANG | __WALL) == 0 && about.si_pid)
            left--;
        else
            nanosleep(&moment, NULL);
    }
    for (int n = 0; n < count; n++)
        ptrace(PTRACE_GETREGS, ids[n], 0, &registers);
    for (int n = 0; n < count; n++)
        ptrace(PTRACE_DETACH, ids[n], 0, 0);
    return now() - begin;
}

int main(int count, char **arguments)
{
    struct sched_param lowest = {1};
    char tasks[64];
    int rounds = count > 2 ? atoi(arguments[2]) : 15;
    double *times = calloc(rounds, sizeof *times);
    snprintf(tasks, sizeof tasks, "/proc/%s/task", arguments[1]);
    prctl(PR_SET_TIMERSLACK, 1);
    sched_setscheduler(0, SCHED_RR, &lowest);
    for (int n = 0; n < rounds; n++) {
        struct timespec moment = {0, 3000000};
        times[n] = once(tasks);
        nanosleep(&moment, NULL);
    }
    qsort(times, rounds, sizeof *times, compared);
    printf("ready\n%.3f\n", times[rounds / 2]);
    return 0;
}
