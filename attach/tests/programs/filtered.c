/* A program whose system calls are filtered, by a filter that lets all of them pass. */
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <unistd.h>

__attribute__((noinline)) int work(int a) { __asm__ volatile(""); return a * 1000003 + 1; }

int main(void)
{
    struct sock_filter filter[] = {BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    struct sock_fprog program = {1, filter};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
        return 1;
    puts("ready");
    fflush(stdout);
    char line[10];
    while (fgets(line, sizeof line, stdin)) {
        printf("worked %d\n", work(1));
        fflush(stdout);
    }
    return 0;
}
