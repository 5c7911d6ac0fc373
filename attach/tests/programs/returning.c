/* Holds a thread where a signal handler has returned, but the kernel has not yet restored the registers: by single steps, a second signal arrives
 * exactly there, whose handler waits on a stack of its own. The first handler has interrupted inserted code, if `work` is attached to.
 *   returning [together]    together: the thread's two stacks are in one mapping, the alternate one at the higher addresses
 * For the lines of standard input:
 *   hold      calls work(7); answer: held, or, if all of its code is the program's own: called RESULT
 *   go        lets the held thread go on; answer: called RESULT
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline, noclone))
enum { TRAP_FLAG = 0x100, STACK_BYTES = 256 << 10 };
enum Step { CALLS, INTERRUPTS, RETURNS, OVER };

extern char __executable_start, etext;
static volatile enum Step step;
static volatile int is_wanted, is_held, may_go;
static volatile long result;
static void *volatile back;
static char *stacks;

NOINLINE long work(long a) { __asm__ volatile("nop; nop; nop; nop; nop"); return a * 3; }

/* The red zone below the stack pointer stays as it is. */
static inline void trace(void) { __asm__ volatile("lea -128(%%rsp), %%rsp; pushfq; orq $0x100, (%%rsp); popfq; lea 128(%%rsp), %%rsp" ::: "memory", "cc"); }
static inline void trace_no_more(void) { __asm__ volatile("lea -128(%%rsp), %%rsp; pushfq; andq $~0x100, (%%rsp); popfq; lea 128(%%rsp), %%rsp" ::: "memory", "cc"); }

/* After each instruction. */
static void traced(int signal, siginfo_t *info, void *context)
{
    greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
    uintptr_t place = (uintptr_t)registers[REG_RIP];
    (void)signal, (void)info;
    if (step == CALLS && (place < (uintptr_t)&__executable_start || place >= (uintptr_t)&etext)) {
        registers[REG_EFL] &= ~TRAP_FLAG;
        step = INTERRUPTS;
        /* Arrives when this handler has returned. */
        syscall(SYS_tgkill, getpid(), syscall(SYS_gettid), SIGUSR1);
    } else if (step == RETURNS && place == (uintptr_t)back) {
        registers[REG_EFL] &= ~TRAP_FLAG;
        step = OVER;
        is_held = 1;
        while (!may_go)
            usleep(200);
    }
}

NOINLINE static void interrupting(int signal)
{
    (void)signal;
    back = __builtin_return_address(0);
    step = RETURNS;
    trace();
}

static void *working(void *unused)
{
    stack_t other = {.ss_sp = stacks + STACK_BYTES, .ss_size = STACK_BYTES};
    sigaltstack(&other, NULL);
    for (;;) {
        while (!is_wanted)
            usleep(200);
        step = CALLS;
        trace();
        long got = work(7);
        trace_no_more();
        is_wanted = 0;
        result = got;
    }
    return unused;
}

int main(int count, char **arguments)
{
    struct sigaction steps = {.sa_sigaction = traced, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    struct sigaction first = {.sa_handler = interrupting};
    pthread_attr_t attributes;
    pthread_t id;
    char line[100];
    sigaddset(&steps.sa_mask, SIGUSR1);
    sigaction(SIGTRAP, &steps, NULL);
    sigaction(SIGUSR1, &first, NULL);
    stacks = mmap(NULL, 2 * STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    pthread_attr_init(&attributes);
    if (count > 1 && !strcmp(arguments[1], "together"))
        pthread_attr_setstack(&attributes, stacks, STACK_BYTES);
    if (stacks == MAP_FAILED || pthread_create(&id, &attributes, working, NULL))
        return 1;
    puts("ready");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        if (!strcmp(line, "hold\n")) {
            result = is_held = may_go = 0;
            is_wanted = 1;
        } else {
            is_held = 0;
            may_go = 1;
        }
        while (!result && !is_held)
            usleep(200);
        if (is_held)
            puts("held");
        else
            printf("called %ld\n", result);
        fflush(stdout);
    }
    return 0;
}
