/* Uses a library that it loads and unloads when it is asked to.
 *   load FILE    answer: loaded
 *   unload       answer: unloaded
 *   kept N       answer: kept RESULT
 *   calls N      calls it N times; answer: called
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static long (*kept)(long, long);

int main(void)
{
    char line[4096];
    void *library = NULL;
    puts("ready");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        line[strcspn(line, "\n")] = 0;
        if (!strncmp(line, "load ", 5)) {
            library = dlopen(line + 5, RTLD_NOW);
            kept = library ? (long (*)(long, long))dlsym(library, "kept") : NULL;
            puts(kept ? "loaded" : "not loaded");
        } else if (!strcmp(line, "unload")) {
            dlclose(library);
            puts("unloaded");
        } else if (!strncmp(line, "kept ", 5)) {
            printf("kept %ld\n", kept(atol(line + 5), 2));
        } else if (!strncmp(line, "calls ", 6)) {
            for (long n = 0; n < atol(line + 6); n++)
                kept(n, 1);
            puts("called");
        }
        fflush(stdout);
    }
    return 0;
}
