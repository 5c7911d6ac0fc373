#include <math.h>
#include <C4SNet.h>

int rows_seen;

void *scaled(void *hnd, c4snet_data_t *sum)
{
  double root = sqrt(*(int *)C4SNetGetData(sum)) + (rows_seen < 0);
  C4SNetFree(sum);
  C4SNetOut(hnd, 1, C4SNetCreate(CTYPE_double, 1, &root));
  return hnd;
}
