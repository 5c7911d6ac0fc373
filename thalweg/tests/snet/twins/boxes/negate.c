#include <C4SNet.h>
int calls;
void *negate(void *hnd, c4snet_data_t *n)
{
  int value = -*(int *)C4SNetGetData(n);
  calls++;
  C4SNetFree(n);
  C4SNetOut(hnd, 1, C4SNetCreate(CTYPE_int, 1, &value));
  return hnd;
}
