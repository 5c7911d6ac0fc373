#include <stdio.h>
#include <C4SNet.h>
int calls;
void *twice(void *hnd, c4snet_data_t *n)
{
  int value = 2 * *(int *)C4SNetGetData(n);
  calls++;
  C4SNetFree(n);
  C4SNetOut(hnd, 1, C4SNetCreate(CTYPE_int, 1, &value));
  return hnd;
}
/* Tries the box alone. */
int main(int argc, char **argv) { printf("%d calls\n", calls); return 0; }
