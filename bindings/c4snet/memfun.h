/* S-Net's names of functions for memory. */
#ifndef THALWEG_C4SNET_MEMFUN_H
#define THALWEG_C4SNET_MEMFUN_H

#include <stdlib.h>

#define SNetMemAlloc(size) malloc(size)
#define SNetMemResize(memory, size) realloc((memory), (size))
#define SNetMemFree(memory) free(memory)

#endif
