/* Measures a call of a library's function. For each line N on standard input, prints the mean time of N calls
   in ns. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

long kept(long a, long b);

int main(void)
{
    char line[100];
    volatile long sum = 0;
    puts("ready");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        struct timespec begin, end;
        long count = atol(line);
        clock_gettime(CLOCK_MONOTONIC, &begin);
        for (long n = 0; n < count; n++)
            sum += kept(n, 1);
        clock_gettime(CLOCK_MONOTONIC, &end);
        printf("%.3f\n", ((end.tv_sec - begin.tv_sec) * 1e9 + (end.tv_nsec - begin.tv_nsec)) / count);
        fflush(stdout);
    }
    return 0;
}
