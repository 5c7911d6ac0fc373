/* Holds the lock that represents an attachment to process argv[1] without attaching to that process. Ends at
   the end of its standard input. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#define PID_FS_MAGIC 0x50494446

int main(int argc, char **argv)
{
    struct statfs about;
    char path[64];
    int file = (int)syscall(SYS_pidfd_open, argc > 1 ? atoi(argv[1]) : 0, 0);
    if (file < 0 || fstatfs(file, &about) || about.f_type != PID_FS_MAGIC) {
        snprintf(path, sizeof path, "/proc/%s/mem", argv[1]);
        file = open(path, O_RDONLY);
    }
    if (flock(file, LOCK_EX | LOCK_NB))
        return 1;
    puts("ready");
    fflush(stdout);
    getchar();
    return 0;
}
