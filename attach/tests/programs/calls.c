/* Measures calls of a function in a program of T threads, of which all but one rest. For each line N on
   standard input, makes N calls and prints the mean time of a call in ns. `relied N` does so with calls whose
   caller relies on the register of argument 1, as gcc's -fipa-ra permits; `clock N` with two readings of the
   processor's clock in place of a call. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline, noclone))

NOINLINE long work(long a, long b) { __asm__ volatile(""); return a * 3 + b; }
static long count;
static volatile long last;

NOINLINE void set_work(long a) { __asm__ volatile("" ::"r"(a)); last = a; }


long relying(long count);
__asm__(".text\n.globl relied\n.type relied,@function\n.p2align 4\n"
        "relied: lea (%rsi,%rdi,2), %rax\nlea 1(%rax), %rax\nret\n.size relied,.-relied\n"
        ".globl relying\n.type relying,@function\n.p2align 4\n"
        "relying: push %rbx\nmov %rdi, %rbx\n"
        "1: mov $7, %esi\nmov %rbx, %rdi\ncall relied\ncmp $7, %rsi\njne 2f\ndec %rbx\njne 1b\n"
        "pop %rbx\nret\n2: ud2\n.size relying,.-relying\n");

static void *resting(void *unused) { (void)unused; for (;;) pause(); return NULL; }

int main(int argc, char **argv)
{
    char line[100];
    pthread_t id;
    for (int n = 1; n < (argc > 1 ? atoi(argv[1]) : 1); n++)
        pthread_create(&id, NULL, resting, NULL);
    puts("ready");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        struct timespec begin, end;
        long sum = 0;
        int is_relied = line[0] == 'r', is_clock = line[0] == 'c';
        count = atol(line + (is_relied ? 7 : is_clock ? 6 : 0));
        clock_gettime(CLOCK_MONOTONIC, &begin);
        if (is_relied)
            sum = relying(count);
        else if (is_clock)
            for (long n = 0; n < count; n++)
                sum += -__builtin_ia32_rdtsc() + __builtin_ia32_rdtsc();
        else
            for (long n = 0; n < count; n++)
                sum += work(n, sum & 1);
        clock_gettime(CLOCK_MONOTONIC, &end);
        set_work(sum);
        printf("%.3f\n", ((end.tv_sec - begin.tv_sec) * 1e9 + (end.tv_nsec - begin.tv_nsec)) / count);
        fflush(stdout);
    }
    return 0;
}
