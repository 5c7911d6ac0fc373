/* Callers that rely on all registers of arguments after a call, as gcc's -fipa-ra permits. For each line
   `given N CALLS DEPTH` on standard input, calls a function that returns its argument N, which is 10 + N, CALLS
   times at each depth of the stack up to DEPTH, and answers with the sum of the results. `tested N CALLS DEPTH` does
   the same with a function that writes the flags first. The program ends if a register was changed. */
#include <stdio.h>
#include <string.h>

#define FUNCTION(name, first, reg) \
    ".globl " name "\n.type " name ",@function\n.p2align 4\n" \
    name ": " first "lea 0x100(%" reg "), %rax\nlea -0x100(%rax), %rax\nret\n.size " name ",.-" name "\n" \
    ".globl by_" name "\n.type by_" name ",@function\n.p2align 4\n" \
    "by_" name ": push %rbx\npush %r12\nmov %rdi, %rbx\nmov $0, %r12\n" \
    "1: mov $10, %rdi\nmov $11, %rsi\nmov $12, %rdx\nmov $13, %rcx\nmov $14, %r8\nmov $15, %r9\n" \
    "call " name "\n" \
    "cmp $10, %rdi\njne 2f\ncmp $11, %rsi\njne 2f\ncmp $12, %rdx\njne 2f\ncmp $13, %rcx\njne 2f\ncmp $14, %r8\njne 2f\ncmp $15, %r9\njne 2f\n" \
    "add %rax, %r12\ndec %rbx\njne 1b\nmov %r12, %rax\npop %r12\npop %rbx\nret\n2: ud2\n.size by_" name ",.-by_" name "\n"
#define BOTH(number, reg) FUNCTION("given" #number, "", reg) FUNCTION("tested" #number, "test %eax, %eax\n", reg)
__asm__(".text\n" BOTH(0, "rdi") BOTH(1, "rsi") BOTH(3, "rcx") BOTH(4, "r8") BOTH(5, "r9"));
long by_given0(long), by_given1(long), by_given3(long), by_given4(long), by_given5(long);
long by_tested0(long), by_tested1(long), by_tested3(long), by_tested4(long), by_tested5(long);

static long at_depths(long (*by)(long), long calls, long depth)
{
    volatile char more[24];
    more[0] = 0;
    long sum = by(calls);
    if (depth > 1)
        sum += at_depths(by, calls, depth - 1);
    return sum + more[0];
}

int main(void)
{
    long (*const all[2][6])(long) = {{by_given0, by_given1, 0, by_given3, by_given4, by_given5},
        {by_tested0, by_tested1, 0, by_tested3, by_tested4, by_tested5}};
    char line[100], name[10];
    long number, calls, depth;
    puts("ready");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        if (sscanf(line, "%9s %ld %ld %ld", name, &number, &calls, &depth) != 4)
            return 1;
        printf("%ld\n", at_depths(all[!strcmp(name, "tested")][number], calls, depth));
        fflush(stdout);
    }
    return 0;
}
