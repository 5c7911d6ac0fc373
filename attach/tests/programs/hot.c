/* Threads that call functions all the time and check every result; what is asked on standard input is answered on standard output.
 *   run N     each thread calls N times, then: done CALLS
 *   clocked N the same, with calls of `spun` that are measured from inside and outside: clocked CALLS INSIDE OUTSIDE, in ticks
 *   begin     the threads call until they are told otherwise; answer: begun
 *   end       they rest; answer: ended CALLS WRONG
 *   ask       answer: value VARIABLE STATE LAST
 *   exec      the program begins anew; answer: ready
 *   quit
 */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline, noclone))

int level = 3;
static long state;
static atomic_long last;
static atomic_long calls, wrong;
static atomic_int going, resting;
static int threads;
static jmp_buf nowhere;

NOINLINE long work(long a, long b) { __asm__ volatile(""); return a * 3 + b; }
NOINLINE long deep(long n) { return n <= 0 ? work(1, 1) : deep(n - 1) + work(n, 0); }
NOINLINE long jumping(long n, jmp_buf *back) { if (n == 0) longjmp(*back, 1); return jumping(n - 1, back) + 1; }
NOINLINE long tail(long a) { return work(a, 7); }
NOINLINE long wide(long a, long b, long c, long d, long e, long f, long g, long h)
{ __asm__ volatile(""); return a + 2 * b + 3 * c + 4 * d + 5 * e + 6 * f + 7 * g + 8 * h; }
NOINLINE double real(double a, double b) { __asm__ volatile(""); return a * b + 0.5; }
NOINLINE void set_state(long value) { __asm__ volatile(""); state = value; }
NOINLINE long get_state(void) { __asm__ volatile(""); return state; }
NOINLINE void safe_point(void) { __asm__ volatile(""); }
NOINLINE void note(long value) { __asm__ volatile(""); last = value; }
/* Functions that cannot be attached to: `tiny` and `next` are too short for a jump, and `looping` jumps into
   its own beginning. */
__asm__(".text\n.globl tiny\n.type tiny,@function\ntiny: xor %eax,%eax\nret\n.size tiny,.-tiny\n"
        ".globl next\n.type next,@function\nnext: mov $1,%eax\nret\n.size next,.-next\n"
        ".globl looping\n.type looping,@function\n.p2align 4\nlooping: xor %eax,%eax\n1: dec %edi\njne 1b\nret\n.size looping,.-looping\n");

static void handler(int signal) { (void)signal; volatile long sum = work(5, 5); for (int n = 0; n < 50; n++) sum += work(n, 1); }

static long round_of(long n)
{
    jmp_buf back;
    long failed = 0;
    failed += work(n, 1) != n * 3 + 1;
    failed += tail(n) != n * 3 + 7;
    failed += wide(n, 1, 2, 3, 4, 5, 6, 7) != n + 2 + 6 + 12 + 20 + 30 + 42 + 56;
    failed += real(n, 2) != (double)n * 2 + 0.5;
    if (n % 16 == 0) {
        failed += deep(6) != 4 + 3 * 21;
        if (!setjmp(back))
            jumping(4, &back);
    }
    safe_point();
    return failed;
}

static void *thread(void *unused)
{
    (void)unused;
    for (long n = 0;; n++) {
        if (!going) {
            resting++;
            while (!going)
                usleep(200);
            resting--;
        }
        wrong += round_of(n);
        calls++;
    }
    return NULL;
}

static atomic_long inside, outside;
NOINLINE void spun(long *ticks)
{
    long begin = __builtin_ia32_rdtsc();
    for (int n = 0; n < 30; n++) __asm__ volatile("");
    *ticks += __builtin_ia32_rdtsc() - begin;
}

static void *clocked(void *count)
{
    long in = 0, out = 0;
    for (long n = 0; n < (long)count; n++) {
        long begin = __builtin_ia32_rdtsc();
        spun(&in);
        out += __builtin_ia32_rdtsc() - begin;
    }
    inside += in;
    outside += out;
    return NULL;
}

static void *running(void *count)
{
    long sum = 0;
    for (long n = 0; n < (long)count; n++)
        sum += work(n, 0);
    return (void *)sum;
}

static void run(void *(*what)(void *), long count)
{
    pthread_t ids[256];
    for (int n = 0; n < threads; n++)
        pthread_create(&ids[n], NULL, what, (void *)count);
    for (int n = 0; n < threads; n++)
        pthread_join(ids[n], NULL);
    if (what == running)
        printf("done %ld\n", count * threads);
    else
        printf("clocked %ld %ld %ld\n", count * threads, inside, outside);
}

int main(int argc, char **argv)
{
    char line[100];
    pthread_t id;
    (void)nowhere;
    threads = argc > 1 ? atoi(argv[1]) : 2;
    signal(SIGALRM, handler);
    if (argc > 2) {
        struct itimerval timer = {{0, 500}, {0, 500}};
        setitimer(ITIMER_REAL, &timer, NULL);
    }
    for (int n = 0; n < threads; n++)
        pthread_create(&id, NULL, thread, NULL);
    printf("ready\n");
    fflush(stdout);
    for (;;) {
        if (!fgets(line, sizeof line, stdin)) {
            if (feof(stdin))
                break;
            clearerr(stdin);
            continue;
        }
        safe_point();
        if (!strncmp(line, "run ", 4))
            run(running, atol(line + 4));
        else if (!strncmp(line, "clocked ", 8))
            run(clocked, atol(line + 8));
        else if (!strcmp(line, "begin\n")) {
            going = 1;
            printf("begun\n");
        } else if (!strcmp(line, "end\n")) {
            going = 0;
            while (resting < threads)
                usleep(200);
            printf("ended %ld %ld\n", (long)calls, (long)wrong);
        } else if (!strncmp(line, "note ", 5)) {
            note(atol(line + 5));
            printf("noted\n");
        } else if (!strcmp(line, "fork\n")) {
            int status = 0;
            pid_t child = fork();
            if (child == 0)
                _exit(work(2, 3) == 9 && deep(5) == 4 + 3 * 15 ? 0 : 1);
            while (waitpid(child, &status, 0) < 0) {}
            printf("forked %d\n", status);
        } else if (!strcmp(line, "ask\n"))
            printf("value %d %ld %ld\n", level, get_state(), (long)last);
        else if (!strncmp(line, "state ", 6)) {
            set_state(atol(line + 6));
            printf("set\n");
        } else if (!strcmp(line, "exec\n"))
            return execv(argv[0], argv);
        else if (!strcmp(line, "quit\n"))
            break;
        fflush(stdout);
    }
    return 0;
}
