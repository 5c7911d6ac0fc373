/* Traces the process whose id is argv[1], until this program is killed. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    if (argc < 2 || ptrace(PTRACE_SEIZE, atoi(argv[1]), NULL, NULL))
        return 1;
    puts("ready");
    fflush(stdout);
    for (;;)
        pause();
}
