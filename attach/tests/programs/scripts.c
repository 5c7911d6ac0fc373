/* Functions with names in several scripts, each called once for a line of standard input; answer: the sum. */
#include <stdio.h>

#define NOINLINE __attribute__((noinline, noclone))

NOINLINE long größe(long a) { __asm__ volatile("nop; nop; nop; nop"); return a + 1; }
NOINLINE long число(long a) { __asm__ volatile("nop; nop; nop; nop"); return a + 2; }
NOINLINE long 数える(long a) { __asm__ volatile("nop; nop; nop; nop"); return a + 3; }
NOINLINE long عدد(long a) { __asm__ volatile("nop; nop; nop; nop"); return a + 4; }
NOINLINE long गिनती(long a) { __asm__ volatile("nop; nop; nop; nop"); return a + 5; }

int main(void)
{
    char line[100];
    puts("ready");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        printf("%ld\n", größe(0) + число(0) + 数える(0) + عدد(0) + गिनती(0));
        fflush(stdout);
    }
    return 0;
}
