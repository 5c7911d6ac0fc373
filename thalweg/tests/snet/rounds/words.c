#include <C4SNet.h>

void *clear(void *hnd, c4snet_data_t *word)
{
  int length = C4SNetArraySize(word);
  C4SNetFree(word);
  C4SNetOut(hnd, 1, NULL, length);
  return hnd;
}

void *judge(void *hnd, c4snet_data_t *word)
{
  C4SNetOut(hnd, 1, word == NULL);
  C4SNetFree(word);
  return hnd;
}

void *stamp(void *hnd)
{
  int mark = 7;
  C4SNetOut(hnd, 1, C4SNetCreate(CTYPE_int, 1, &mark));
  return hnd;
}

void *less(void *hnd, c4snet_data_t *n)
{
  int value = *(int *)C4SNetGetData(n) - 1;
  C4SNetFree(n);
  C4SNetOut(hnd, 1, C4SNetCreate(CTYPE_int, 1, &value));
  return hnd;
}
