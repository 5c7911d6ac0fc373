/* Takes the time of both. */
#include <time.h>
int calls;
int main(void) { return clock() < 0; }
