/* Writes an input: generate WIDTH HEIGHT > data.xml */
#include <stdio.h>
#include <stdlib.h>

main(argc, argv)
int argc;
char **argv;
{
  int at, cells = atoi(argv[1]) * atoi(argv[2]);
  printf("<record type=\"data\" mode=\"textual\" interface=\"C4SNet\"><field label=\"cells\">(int[%d])", cells);
  for (at = 0; at < cells; at++) printf("%s%d", at ? "," : "", at);
  printf("</field><tag label=\"width\">%s</tag></record>\n<record type=\"terminate\" />\n", argv[1]);
  return 0;
}
