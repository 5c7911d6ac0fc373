/* As it was written in 1998, when nobody declared what returned an int. */
#include <C4SNet.h>

int rows_seen;            /* a common symbol: shared.c and scaled.c have it, too */

copy_row(to, from, width)
int *to, *from;
{
  int at;
  for (at = 0; at < width; at++) to[at] = from[at];
  return width;
}

void *rows(hnd, cells, width)
void *hnd;
c4snet_data_t *cells;
int width;
{
  int at, count = C4SNetArraySize(cells) / width;
  int *data = C4SNetGetData(cells);

  for (at = 0; at < count; at++) {
    void *room;
    c4snet_data_t *row = C4SNetAlloc(CTYPE_int, width, &room);
    copy_row(room, data + at * width, width);
    note_row();
    C4SNetOut(hnd, 1, row, at);
  }
  C4SNetFree(cells);
  return hnd;
}
