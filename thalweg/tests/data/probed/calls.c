/* `calls COUNT TEXT`: COUNT calls of `work`, of which every third fails, and as many of `other`, each by `work`; a kind of event of its own. */
#include "shop.h"
#include "thalweg_probe.h"
#include <stdlib.h>
#include <string.h>

static void other(void)
{
    THALWEG_PROBE();
}

static void work(long n)
{
    THALWEG_PROBE_AS(probe, "work, of \"two\" words");
    other();
    if (n % 3 == 0)
        thalweg_fail(&probe);
}

int main(int count, char **arguments)
{
    long n, calls = count > 1 ? atol(arguments[1]) : 0;
    for (n = 0; n < calls; n++)
        work(n);
    if (count > 2)
        thalweg_emit_shop_said(-7, 2.5, 1, arguments[2], strlen(arguments[2]));
    return 0;
}
