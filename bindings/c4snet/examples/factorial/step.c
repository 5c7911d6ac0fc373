#include "bool.h"
#include "C4SNet.h"

/* One multiplication, or the end. */
void *step(void *hnd, c4snet_data_t *x, c4snet_data_t *r) {
    int left = C4SNetGetInt(x);
    long product = *(long *)C4SNetGetData(r);
    bool last = left <= 1;
    C4SNetFree(r);
    if (last) {
        C4SNetOut(hnd, 2, C4SNetCreate(CTYPE_long, 1, &product), 3);
        C4SNetFree(x);
    } else {
        int next = left - 1;
        product *= left;
        C4SNetOut(hnd, 1, C4SNetCreate(CTYPE_int, 1, &next), C4SNetCreate(CTYPE_long, 1, &product));
        C4SNetFree(x);
    }
    return hnd;
}
