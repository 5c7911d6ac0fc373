#include <C4SNet.h>
void *halve(void *hnd, c4snet_data_t *n)
{
  int value = *(int *)C4SNetGetData(n), half = value / 2;
  C4SNetFree(n);
  C4SNetOut(hnd, 1, C4SNetCreate(CTYPE_int, 1, &half), value % 2);
  return hnd;
}
