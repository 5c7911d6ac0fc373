// Coroutines are given up in the middle of a call and their stacks unmapped; then the same thread throws
// exceptions. The answer to each line on standard input is "sum ALIVE".
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <pthread.h>
#include <string>
#include <sys/mman.h>
#include <ucontext.h>

#ifdef __clang__
#define NOINLINE __attribute__((noinline))
#else
#define NOINLINE __attribute__((noinline, noclone))
#endif

enum { STACKS = 32, BYTES = 64 << 10 };
static char *stacks[STACKS];
static ucontext_t inside, outside;

extern "C" {
NOINLINE void given_up(long n)
{
    __asm__ volatile("" ::"r"(n));
    swapcontext(&inside, &outside);
    __asm__ volatile("" ::"r"(n));
}
NOINLINE long thrower(long n)
{
    if (n % 2)
        throw std::string("odd");
    return n;
}
NOINLINE long caught(long n)
{
    try {
        return thrower(n) + 1;
    } catch (const std::string &text) {
        return (long)text.size();
    }
}
}

static void coroutine() { given_up(7); }

static void *thread(void *result)
{
    for (int n = 0; n < STACKS; n++) {
        getcontext(&inside);
        inside.uc_stack.ss_sp = stacks[n];
        inside.uc_stack.ss_size = BYTES;
        makecontext(&inside, coroutine, 0);
        swapcontext(&outside, &inside);
        munmap(stacks[n], BYTES);
        *(long *)result += caught(n);
    }
    return nullptr;
}

int main()
{
    char line[100];
    std::puts("ready");
    std::fflush(stdout);
    while (std::fgets(line, sizeof line, stdin)) {
        long sum = 0;
        // The stacks of the coroutines are mapped before the thread's stack, so they lie above it.
        for (auto &stack : stacks)
            stack = (char *)mmap(nullptr, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        pthread_t id;
        pthread_create(&id, nullptr, thread, &sum);
        pthread_join(id, nullptr);
        std::printf("sum %ld\n", sum);
        std::fflush(stdout);
    }
    return 0;
}
