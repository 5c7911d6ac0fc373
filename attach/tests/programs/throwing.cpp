// For each line on standard input, throws exceptions that pass functions, and prints an answer on standard
// output.
#include <cstdio>
#include <cstdlib>
#include <string>

#define NOINLINE __attribute__((noinline, noclone))

struct Counted {
    static int alive;
    Counted() { alive++; }
    ~Counted() { alive--; }
};
int Counted::alive;

NOINLINE int thrower(int n)
{
    Counted here;
    if (n < 0)
        throw std::string("below zero");
    return n * 2;
}

NOINLINE int middle(int n)
{
    Counted here;
    return thrower(n - 5) + 1;
}

NOINLINE int again(int n)
{
    try {
        return middle(n);
    } catch (const std::string &) {
        throw;
    }
}

NOINLINE int caught(int n)
{
    try {
        return again(n);
    } catch (const std::string &text) {
        return -(int)text.size();
    }
}

int main()
{
    char line[100];
    std::puts("ready");
    std::fflush(stdout);
    while (std::fgets(line, sizeof line, stdin)) {
        long sum = 0, count = std::atol(line);
        for (long n = 0; n < count; n++)
            sum += caught(n % 10);
        std::printf("sum %ld %d\n", sum, Counted::alive);
        std::fflush(stdout);
    }
    return 0;
}
