/* A library with probes, and a program that loads and unloads it again and again: `unloaded LIBRARY TIMES`. Threads that called it end when it is gone. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#if defined(LIBRARY) || defined(PROBES)
#include "thalweg_probe.h"
#endif

#ifdef LIBRARY

int called(int n)
{
    THALWEG_PROBE();
    return n + 1;
}

#else

static pthread_barrier_t has_called, is_unloaded;
static int (*function)(int);

static void *other(void *unused)
{
    function(1);
    pthread_barrier_wait(&has_called);
    pthread_barrier_wait(&is_unloaded);
    return unused;
}

static int calls(int n)
{
#ifdef PROBES
    THALWEG_PROBE();
#endif
    return function(n);
}

int main(int count, char **arguments)
{
    int n, times = count == 3 ? atoi(arguments[2]) : 0;
    pthread_barrier_init(&has_called, NULL, 2);
    pthread_barrier_init(&is_unloaded, NULL, 2);
    for (n = 0; n < times; n++) {
        void *library = dlopen(arguments[1], RTLD_NOW);
        pthread_t thread;
        if (!library) {
            fputs(dlerror(), stderr);
            return 1;
        }
        *(void **)&function = dlsym(library, "called");
        if (calls(n) != n + 1)
            return 2;
        pthread_create(&thread, NULL, other, NULL);
        pthread_barrier_wait(&has_called);
        if (n == times / 2) {
            pid_t child = fork();
            int status = 0;
            if (child == 0) {
                function(3);
                exit(0);
            }
            waitpid(child, &status, 0);
            if (status != 0)
                return 3;
        }
        dlclose(library);
        pthread_barrier_wait(&is_unloaded);
        pthread_join(thread, NULL);
    }
    return times > 0 ? 0 : 4;
}

#endif
