#include <C4SNet.h>
void *show(void *hnd, c4snet_data_t *y) { C4SNetOut(hnd, 1, y); return hnd; }
