#include <stdlib.h>
#include <snetentities.h>
#include "C4SNetc.h"

void *greet(snet_handle_t *hnd, c4snet_data_t *name) { C4SNetOut(hnd, 1, name); return hnd; }
