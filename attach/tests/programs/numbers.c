/* Functions of one argument of each type, which they return. At a line NAME on standard input, the function
   of that name is called with values of all sizes and signs, and answers with them: NAME VALUE…, where a
   floating-point number is shown as the bits of a `double`, and a value that came back changed has a `!`.
   `flags` answers with the exceptions of floating-point numbers that were raised meanwhile, and whether the
   rounding is still the program's own: flags RAISED ROUNDED */
#include <fenv.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#ifdef __clang__
#define NOINLINE __attribute__((noinline))
#else
#define NOINLINE __attribute__((noipa))
#endif
enum { CALLS = 500 };
enum color { RED = -2, BLUE = 5 };
enum size { SMALL, LARGE = 0xf0000000 };

#define OF(type, name) NOINLINE type of_##name(type value) { __asm__ volatile("" ::: "memory"); return value; }
OF(char, char) OF(signed char, small) OF(unsigned char, byte) OF(bool, bool)
OF(short, short) OF(unsigned short, word) OF(int, int) OF(unsigned, unsigned)
OF(long, long) OF(uint64_t, size) OF(enum color, color) OF(enum size, large)
OF(void *, pointer) OF(float, float) OF(double, double)

NOINLINE double mixed(short a, double b, int c, float d, const char *e)
{ __asm__ volatile("" ::"r"(e) : "memory"); return a + b * c + d; }

static uint64_t state = 88172645463325252u;
static uint64_t any(void)
{
    state ^= state << 13; state ^= state >> 7; state ^= state << 17;
    return state;
}

/* Bits of any length: whole numbers near zero and far from it. */
static uint64_t bits(int n)
{
    static const uint64_t edges[] = {0, 1, -1, -3, 0x7f, 0x80, 0x7fff, 0x8000, 0x7fffffff, 0x80000000, 0xffffffff,
        INT64_MAX, INT64_MIN, 7, -8};
    if (n < 15)
        return edges[n];
    uint64_t number = any() >> any() % 64;
    return any() % 2 ? number : -number;
}

static double real(int n)
{
    static const double edges[] = {0, -0.0, 1, -1, 1.5, -1.75, 1e-30, -1e-30, 3e-45, 1e30, -1e30, 0.1};
    if (n < 12)
        return edges[n];
    double number = (double)(any() >> 11) / (1 << 20) / (1 << 20);
    return any() % 2 ? number : -number;
}

/* The caller leaves bits of the register that are not of the argument as they are. */
#define WHOLE(name, type, format, shown) \
    if (!strcmp(line, "of_" #name "\n")) { \
        printf("of_" #name); \
        for (int n = 0; n < CALLS; n++) { \
            uint64_t value = bits(n); \
            void *volatile function = (void *)of_##name; \
            type result = ((type(*)(uint64_t))function)(value); \
            printf(" " format "%s", (shown)(type)value, (type)value == result ? "" : "!"); \
        } \
    }
#define REAL(name, type) \
    if (!strcmp(line, "of_" #name "\n")) { \
        printf("of_" #name); \
        for (int n = 0; n < CALLS; n++) { \
            volatile type value = (type)real(n); \
            feclearexcept(FE_ALL_EXCEPT); \
            volatile type result = of_##name(value); \
            raised |= fetestexcept(FE_ALL_EXCEPT); \
            double wide = value; \
            uint64_t shown; \
            memcpy(&shown, &wide, sizeof shown); \
            printf(" %llu%s", (unsigned long long)shown, value == result ? "" : "!"); \
        } \
    }

int main(void)
{
    char line[100];
    int raised = 0;
    puts("ready");
    fflush(stdout);
    fesetround(FE_UPWARD);
    while (fgets(line, sizeof line, stdin)) {
        WHOLE(char, char, "%lld", long long) WHOLE(small, signed char, "%lld", long long)
        WHOLE(byte, unsigned char, "%lld", long long) WHOLE(short, short, "%lld", long long)
        WHOLE(word, unsigned short, "%lld", long long) WHOLE(int, int, "%lld", long long)
        WHOLE(unsigned, unsigned, "%lld", long long) WHOLE(long, long, "%lld", long long)
        WHOLE(size, uint64_t, "%llu", unsigned long long) WHOLE(color, enum color, "%lld", long long)
        WHOLE(large, enum size, "%llu", unsigned long long) WHOLE(pointer, void *, "%p", void *)
        REAL(float, float) REAL(double, double)
        if (!strcmp(line, "of_bool\n")) {
            printf("of_bool");
            for (int n = 0; n < CALLS; n++) {
                void *volatile function = (void *)of_bool;
                bool value = any() % 3 == 0, result = ((bool(*)(uint64_t))function)(any() << 8 | value);
                printf(" %d%s", value, value == result ? "" : "!");
            }
        }
        if (!strcmp(line, "odd\n")) {
            static const double odd[] = {0.0 / 0.0, 1.0 / 0.0, -1.0 / 0.0, 5e-324, -1e-300, 1e300};
            printf("odd");
            for (int n = 0; n < 6; n++)
                of_double(odd[n]);
        }
        if (!strcmp(line, "mixed\n"))
            printf("mixed %g", mixed(-7, 2.5, -3, 0.25f, line));
        if (!strcmp(line, "flags\n"))
            printf("flags %d %d", raised, fegetround() == FE_UPWARD);
        puts("");
        fflush(stdout);
    }
    return 0;
}
