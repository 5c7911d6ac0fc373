/* Functions of various types: at every line on standard input they are called once. */
#include <stdio.h>

#define NOINLINE __attribute__((noinline, noclone))

struct box { int width, height; };

NOINLINE double scaled(const char *name, double by, int times, float more)
{ __asm__ volatile("" ::"r"(name)); return by * times + more; }
NOINLINE int area(unsigned char unit, struct box box, long scale)
{ __asm__ volatile("" ::"r"((int)unit), "r"(scale)); return box.width * box.height; }

int main(void)
{
    char line[100];
    puts("ready");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        struct box box = {3, 4};
        printf("%g %d\n", scaled("a name", 2.5, -4, 0.5f), area(200, box, 5));
        fflush(stdout);
    }
    return 0;
}
