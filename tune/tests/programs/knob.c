/* Calls `work` all the time, and prints a line when the variable `knob` has changed: its value and two zeros.
 * knob SECONDS. The program ends earlier if the file that the variable STOP names comes into being. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

volatile int knob = 1;

static volatile int done;

__attribute__((noinline)) void work(int item) {
    for (int i = 0; i < item; i++) done += i;
}

int main(int c, char **v) {
    time_t begin = time(NULL);
    int last = 0;
    while (time(NULL) - begin < atoi(v[1])) {
        for (int i = 0; i < 100; i++) {
            work(7);
            usleep(200);
            if (knob == last) continue;
            last = knob;
            printf("%d 0 0\n", last);
            fflush(stdout);
        }
        if (getenv("STOP") && !access(getenv("STOP"), F_OK)) break;
    }
    puts("done");
    return 0;
}
