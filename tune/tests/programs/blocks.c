/* Asks for large blocks, writes them, and frees them: blocks SECONDS BYTES. Each line of output says how long
 * a block took, in microseconds. The program ends earlier if the file that the variable STOP names comes into
 * being. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e6 + t.tv_nsec / 1e3;
}

int main(int c, char **v) {
    double begin = now(), line = begin;
    size_t bytes = atol(v[2]);
    long blocks = 0, sum = 0;
    while (now() - begin < atof(v[1]) * 1e6) {
        char *several[4];
        for (int i = 0; i < 4; i++) {
            several[i] = malloc(bytes);
            for (size_t at = 0; at < bytes; at += 4096) several[i][at] = (char)at;
            sum += several[i][bytes / 2];
        }
        for (int i = 3; i >= 0; i--) free(several[i]);
        blocks += 4;
        if (now() - line > 2e5) {
            printf("%.3f %zu %.2f\n", (now() - begin) / 1e6, bytes, (now() - line) / blocks);
            fflush(stdout);
            line = now();
            blocks = 0;
            if (getenv("STOP") && !access(getenv("STOP"), F_OK)) break;
        }
    }
    puts(sum < 0 ? "" : "done");
    return 0;
}
