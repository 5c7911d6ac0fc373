#include <C4SNet.h>
void *open(void *hnd, c4snet_data_t *data) { C4SNetOut(hnd, 1, data); return hnd; }
