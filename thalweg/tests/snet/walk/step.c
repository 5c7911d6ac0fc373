#include <string.h>
#include <C4SNet.h>

int advance(int place);

void *step(void *hnd, c4snet_data_t *place, int left)
{
  int next = advance(*(int *)C4SNetGetData(place));
  C4SNetFree(place);
  C4SNetOut(hnd, 1, C4SNetCreate(CTYPE_int, 1, &next), left - 1);
  return hnd;
}
