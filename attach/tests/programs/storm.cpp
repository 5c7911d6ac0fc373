/* Threads that do all that makes patching code dangerous, check every result, and count every call themselves.
 *   storm THREADS FOLDER KINDS    with libstorm_part.so and libstorm_kept.so in FOLDER; KINDS as in `kinds` below
 * What is asked on standard input is answered on standard output:
 *   begin     answer: begun
 *   end       all rest; answer: ended ROUNDS WRONG NAME=WRONG…
 *   truth     answer: truth COUNT… (of plain, deep, tail, wide, real, large, thrower, middle, jumping, woven, kept)
 *   ask       answer: value LEVEL CALLED (the sum of what `called` was called with)
 */
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <string>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#ifdef __clang__
#define NOINLINE __attribute__((noinline))
#else
#define NOINLINE __attribute__((noinline, noclone))
#endif
#define HERE __asm__ volatile("")

enum Call { PLAIN, DEEP, TAIL, WIDE, REAL, LARGE, THROWER, MIDDLE, JUMPING, WOVEN, KEPT, CALLS };
enum Check { C_PLAIN, C_TAIL, C_WIDE, C_REAL, C_LARGE, C_DEEP, C_THROWN, C_JUMP, C_WOVEN, C_KEPT, C_CHOSEN, C_LEVEL, C_JIT, C_PART, C_FORK, C_EXEC, C_THREAD, CHECKS };
static const char *const names[CHECKS] = {"plain", "tail", "wide", "real", "large", "deep", "thrown", "jump", "woven", "kept", "chosen", "level", "jit", "part", "fork", "exec", "thread"};
enum { STRIPES = 64 };
struct alignas(64) Stripe { std::atomic<long> calls[CALLS]; };

/* Shared with children of fork, whose calls are counted as well. */
static Stripe *truth;
static std::atomic<long> rounds, wrong[CHECKS];
static std::atomic<int> going, resting, handling, stripes;
static long (*called_sum)();
static thread_local int stripe;
static const char *folder, *kinds;
static int threads;
extern "C" {
int level = 3;
long (*kept_now)(long, long);

NOINLINE long plain(long a, long b) { HERE; return a * 3 + b; }
}

static bool has(char kind) { return strchr(kinds, kind) != nullptr; }
static void count(Call call) { truth[stripe].calls[call].fetch_add(1, std::memory_order_relaxed); }
static void check(Check what, bool is_right) { if (!is_right) wrong[what]++; }
static long counted_plain(long a, long b) { count(PLAIN); return plain(a, b); }

extern "C" {
/* The recursion goes through pointers whose targets the compiler does not know, because it would turn direct
   recursion into a loop, and the calls would not equal the entries. */
long deep(long n);
long jumping(long n, jmp_buf *back);
static long (*volatile deeper)(long) = deep;
static long (*volatile jumping_on)(long, jmp_buf *) = jumping;
NOINLINE long deep(long n) { HERE; count(DEEP); return n <= 0 ? counted_plain(1, 1) : deeper(n - 1) + counted_plain(n, 0); }
NOINLINE long tail(long a) { count(TAIL); count(PLAIN); return plain(a, 7); }
NOINLINE long wide(long a, long b, long c, long d, long e, long f, long g, long h) { HERE; return a + 2 * b + 3 * c + 4 * d + 5 * e + 6 * f + 7 * g + 8 * h; }
NOINLINE double real(double a, double b) { HERE; return a * b + 0.5; }
struct Large { long words[6]; };
NOINLINE Large large(long a, const char *text, ...) { HERE; Large made = {{a, a + 1, a + 2, (long)text[0], a + 4, a + 5}}; return made; }
/* The test replaces the second argument by 77 now and then; the caller sees from the result which value the
   function got. */
NOINLINE long chosen(long a, long b) { HERE; return a * 1000 + b; }
NOINLINE void safe_point(void) { __asm__ volatile("nopl 0(%rax)\n\tnopl 0(%rax)"); }
}

struct Alive {
    long *alive;
    explicit Alive(long *alive) : alive(alive) { ++*alive; }
    ~Alive() { --*alive; }
};
extern "C" {
NOINLINE long thrower(long n, long *alive) { Alive here(alive); count(THROWER); if (n % 3 == 0) throw std::string("no"); return counted_plain(n, 2); }
NOINLINE long middle(long n, long *alive) { Alive here(alive); count(MIDDLE); return thrower(n, alive) + 1; }
NOINLINE long jumping(long n, jmp_buf *back) { HERE; count(JUMPING); if (n <= 0) longjmp(*back, 1); return jumping_on(n - 1, back) + 1; }
}

/* A routine that runs on a stack of its own, in turns with its caller. */
struct Weave { ucontext_t inside, outside; long sum; char stack[64 << 10]; };
extern "C" NOINLINE void woven(Weave *weave, long n)
{
    count(WOVEN);
    weave->sum += counted_plain(n, 1);
    swapcontext(&weave->inside, &weave->outside);
    weave->sum += counted_plain(n, 2);
    HERE;
}
static void weaving(unsigned high, unsigned low)
{
    Weave *weave = (Weave *)((uintptr_t)high << 32 | low);
    for (long n = 0;; n++)
        woven(weave, n);
}
static void start(Weave *weave)
{
    getcontext(&weave->inside);
    weave->inside.uc_stack.ss_sp = weave->stack;
    weave->inside.uc_stack.ss_size = sizeof weave->stack;
    weave->sum = 0;
    makecontext(&weave->inside, (void (*)())weaving, 2, (unsigned)((uintptr_t)weave >> 32), (unsigned)(uintptr_t)weave);
}

static void handler(int)
{
    char text[4096];
    handling++;
    if (!going) {
        handling--;
        return;
    }
    volatile long sum = counted_plain(5, 5);
    check(C_PLAIN, sum == 20);
    snprintf(text, sizeof text, "%ld %s", (long)sum, "in a handler");
    for (long n = 0; n < 20; n++)
        check(C_PLAIN, counted_plain(n, 1) == n * 3 + 1);
    handling--;
}

static void round_of(long n, Weave *weave)
{
    check(C_PLAIN, counted_plain(n, 1) == n * 3 + 1);
    check(C_TAIL, tail(n) == n * 3 + 7);
    count(WIDE);
    check(C_WIDE, wide(n, 1, 2, 3, 4, 5, 6, 7) == n + 2 + 6 + 12 + 20 + 30 + 42 + 56);
    count(REAL);
    check(C_REAL, real((double)n, 2) == (double)n * 2 + 0.5);
    count(LARGE);
    Large made = large(n, "x", 1.5, n);
    check(C_LARGE, made.words[0] == n && made.words[3] == 'x' && made.words[5] == n + 5);
    count(KEPT);
    long result = kept_now(n, 2);
    check(C_KEPT, result == n * 5 + 2 || result == n * 7 + 2);
    long second = n % 50, got = chosen(n, second);
    check(C_CHOSEN, got == n * 1000 + second || got == n * 1000 + 77);
    int now = *(volatile int *)&level;
    check(C_LEVEL, now == 3 || now == 9);
    if (n % 16 == 0)
        check(C_DEEP, deep(6) == 4 + 3 * 21);
    if (has('x') && n % 8 == 0) {
        long alive = 0, sum;
        try { sum = middle(n, &alive); } catch (const std::string &text) { sum = -(long)text.size(); }
        check(C_THROWN, alive == 0 && sum == (n % 3 == 0 ? -2 : n * 3 + 3));
    }
    if (has('j') && n % 16 == 1) {
        jmp_buf back;
        volatile long before = n;
        if (!setjmp(back))
            jumping(4, &back);
        check(C_JUMP, before == n);
    }
    if (has('c') && n % 16 == 2) {
        long before = weave->sum;
        swapcontext(&weave->outside, &weave->inside);
        check(C_WOVEN, weave->sum > before && (weave->sum - 1) % 3 <= 2);
    }
    safe_point();
}

static void rest()
{
    if (!going) {
        resting++;
        while (!going)
            usleep(200);
        resting--;
    }
}

static void *hot(void *)
{
    stripe = stripes++ % STRIPES;
    /* Signals now and then arrive on a stack of their own. */
    stack_t own = {};
    own.ss_size = 64 << 10;
    own.ss_sp = malloc(own.ss_size);
    if (stripe % 2)
        sigaltstack(&own, nullptr);
    Weave *weave = (Weave *)malloc(sizeof(Weave));
    start(weave);
    for (long n = 0;; n++) {
        rest();
        round_of(n, weave);
        rounds++;
    }
}

/* Threads that end in the middle of calls. */
extern "C" NOINLINE void *ending(long how)
{
    check(C_THREAD, counted_plain(how, 1) == how * 3 + 1);
    if (how == 1)
        pthread_exit((void *)7L);
    if (how == 2)
        for (;;) { pthread_testcancel(); sched_yield(); }
    HERE;
    return (void *)7L;
}
static void *brief(void *how) { void *result = ending((long)how); HERE; return result; }

static void made_threads(long n)
{
    for (long how = 0; how < 3; how++) {
        pthread_t id;
        void *result = nullptr;
        if (pthread_create(&id, nullptr, brief, (void *)how))
            continue;
        if (how == 2) {
            if (n % 2)
                usleep(100);
            pthread_cancel(id);
        }
        pthread_join(id, &result);
        check(C_THREAD, result == (how == 2 ? PTHREAD_CANCELED : (void *)7L));
    }
}

static void made_code()
{
    /* mov rax, ADDRESS; jmp rax */
    unsigned char code[] = {0x48, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xe0};
    long (*function)(long, long) = plain;
    memcpy(code + 2, &function, 8);
    void *page = mmap(nullptr, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED)
        return;
    memcpy(page, code, sizeof code);
    for (long n = 0; n < 50; n++) {
        count(PLAIN);
        check(C_JIT, ((long (*)(long, long))page)(n, 3) == n * 3 + 3);
    }
    munmap(page, 4096);
}

static void loaded()
{
    void *library = dlopen((std::string(folder) + "/libstorm_part.so").c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        check(C_PART, false);
        return;
    }
    auto part = (long (*)(long, long))dlsym(library, "part_of_two");
    for (long n = 0; n < 200; n++)
        check(C_PART, part(n, 1) == 12 * n + 2);
    usleep(300);
    dlclose(library);
}

static void forked()
{
    pid_t child = fork();
    if (child == 0) {
        long alive = 0, caught = 0;
        try { middle(3, &alive); } catch (const std::string &) { caught = 1; }
        _exit(caught && !alive && counted_plain(2, 3) == 9 && deep(5) == 4 + 3 * 15 ? 0 : 1);
    }
    int status = 0;
    while (child > 0 && waitpid(child, &status, 0) < 0) {}
    check(C_FORK, child < 0 || status == 0);
}

extern "C" NOINLINE int spawned(bool is_vfork)
{
    char name[] = "true";
    char *arguments[] = {name, nullptr};
    pid_t child = 0;
    int status = 0;
    if (is_vfork) {
        child = vfork();
        if (child == 0) {
            execv("/bin/true", arguments);
            _exit(9);
        }
    } else if (posix_spawn(&child, "/bin/true", nullptr, nullptr, arguments, nullptr)) {
        return 0;
    }
    while (child > 0 && waitpid(child, &status, 0) < 0) {}
    return child > 0 ? status : 0;
}

static void *restless(void *)
{
    stripe = stripes++ % STRIPES;
    for (long n = 0;; n++) {
        rest();
        if (has('t')) made_threads(n);
        if (has('p')) made_code();
        if (has('d')) loaded();
        if (has('f')) forked();
        if (has('v')) check(C_EXEC, spawned(n % 2) == 0);
        usleep(200);
    }
}

static void answer(const char *line)
{
    if (!strcmp(line, "begin\n")) {
        going = 1;
        printf("begun\n");
    } else if (!strcmp(line, "end\n")) {
        going = 0;
        while (resting < threads + 1 || handling)
            usleep(200);
        long sum = 0;
        for (auto &number : wrong)
            sum += number;
        printf("ended %ld %ld", (long)rounds, sum);
        for (int n = 0; n < CHECKS; n++)
            if (wrong[n])
                printf(" %s=%ld", names[n], (long)wrong[n]);
        printf("\n");
    } else if (!strcmp(line, "truth\n")) {
        printf("truth");
        for (int call = 0; call < CALLS; call++) {
            long sum = 0;
            for (int n = 0; n < STRIPES; n++)
                sum += truth[n].calls[call];
            printf(" %ld", sum);
        }
        printf("\n");
    } else if (!strcmp(line, "ask\n")) {
        printf("value %d %ld\n", level, called_sum());
    }
    fflush(stdout);
}

int main(int count, char **arguments)
{
    if (count < 4)
        return 2;
    threads = atoi(arguments[1]);
    folder = arguments[2];
    kinds = arguments[3];
    truth = (Stripe *)mmap(nullptr, sizeof(Stripe) * STRIPES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    void *library = dlopen((std::string(folder) + "/libstorm_kept.so").c_str(), RTLD_NOW);
    if (!library)
        return 3;
    kept_now = (long (*)(long, long))dlsym(library, "kept");
    called_sum = (long (*)())dlsym(library, "called_sum");
    struct sigaction action = {};
    action.sa_handler = handler;
    action.sa_flags = SA_ONSTACK | SA_RESTART;
    sigaction(SIGALRM, &action, nullptr);
    if (has('s')) {
        struct itimerval timer = {{0, 700}, {0, 700}};
        setitimer(ITIMER_REAL, &timer, nullptr);
    }
    pthread_t id;
    for (int n = 0; n < threads; n++)
        pthread_create(&id, nullptr, hot, nullptr);
    pthread_create(&id, nullptr, restless, nullptr);
    printf("ready\n");
    fflush(stdout);
    char line[100];
    for (;;) {
        if (fgets(line, sizeof line, stdin))
            answer(line);
        else if (feof(stdin))
            return 0;
        else
            clearerr(stdin);
    }
}
