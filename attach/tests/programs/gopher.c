/* Looks like a program in Go: it has the section by which programs in Go are recognised. */
#include <stdio.h>
#include <unistd.h>

__attribute__((section(".go.buildinfo"), used)) static const char buildinfo[] = "\xff Go buildinf:";

int main(void)
{
    puts("ready");
    fflush(stdout);
    for (;;)
        pause();
}
