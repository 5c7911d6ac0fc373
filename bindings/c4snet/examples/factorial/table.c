#include "C4SNet.h"

/* The product and its first n powers, as an array. */
void *table(void *hnd, c4snet_data_t *r, int n) {
    long product = *(long *)C4SNetGetData(r), power = 1;
    double *powers;
    c4snet_data_t *array = C4SNetAlloc(CTYPE_double, (size_t)n, (void **)&powers);
    c4snet_container_t *out = C4SNetContainerCreate(hnd, 1);
    int i;
    for (i = 0; i < n; i++) powers[i] = (double)(power *= product);
    C4SNetContainerSetBTag(out, n);
    C4SNetContainerSetField(C4SNetContainerSetField(out, C4SNetShallowCopy(r)), array);
    C4SNetContainerOut(out);
    C4SNetFree(r);
    return hnd;
}
