#include "C4SNet.h"

static add(a, b) { return a + b; }

void *total(void *hnd, c4snet_data_t *row)
{
  int *cells = (int *)C4SNetGetData(row);
  int sum = 0;
  for (int i = 0; i < C4SNetArraySize(row); i++)
    sum = add(sum, cells[i]);
  C4SNetFree(row);
  C4SNetOut(hnd, 1, C4SNetCreate(CTYPE_int, 1, &sum));
  return hnd;
}
