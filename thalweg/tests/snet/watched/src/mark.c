#include <C4SNet.h>

void *mark(void *hnd, c4snet_data_t *x)
{
  C4SNetOut(hnd, 1, x, 1);
  return hnd;
}
