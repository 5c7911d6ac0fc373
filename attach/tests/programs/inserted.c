/* A library whose state can be checked: its functions count calls under a lock. If a thread takes the lock twice, the program ends. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP;
static long calls, sum;
static double real_sum;
static volatile int is_slow, is_within;
static long (*volatile back)(long, long);

static void take(void)
{
    if (pthread_mutex_lock(&lock))
        abort();
}

static void add(long by, double real)
{
    take();
    calls++;
    sum += by;
    real_sum += real;
    pthread_mutex_unlock(&lock);
}

/* Adds its arguments; waits as long as it is to be slow; changes all registers that a function may change. */
void seen(long a, long b, long c, long d, long e, long f)
{
    is_within = 1;
    while (is_slow)
        usleep(200);
    is_within = 0;
    add(a + 10 * b + 100 * c + 1000 * d + 10000 * e + 100000 * f, 0);
    __asm__ volatile("mov $99, %%eax; mov %%eax, %%ecx; mov %%eax, %%edx; mov %%eax, %%esi; mov %%eax, %%edi; mov %%eax, %%r8d; mov %%eax, %%r9d;"
                     "mov %%eax, %%r10d; mov %%eax, %%r11d; pxor %%xmm0, %%xmm0; pxor %%xmm1, %%xmm1; pxor %%xmm15, %%xmm15" ::
                         : "rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "xmm0", "xmm1", "xmm15");
}

void seen_real(double a, double b) { add(0, a + 10 * b); }

/* Calls the program's function, at whose entry it may have been inserted. */
void seen_again(long a, long b)
{
    add(a, 0);
    back(a, b);
}

/* Calls the program's function while the lock is held. */
long nested(long a, long b)
{
    take();
    long result = back(a, b);
    pthread_mutex_unlock(&lock);
    return result;
}

void set_back(long (*function)(long, long)) { back = function; }
void set_slow(int slow) { is_slow = slow; }
int within(void) { return is_within; }
void state(long *into, double *real)
{
    take();
    into[0] = calls;
    into[1] = sum;
    *real = real_sum;
    pthread_mutex_unlock(&lock);
}
