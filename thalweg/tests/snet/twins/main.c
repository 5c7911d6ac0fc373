/* Starts both networks, one after the other. */
#include <stdlib.h>
int main(void) { return system("./left < left.xml && ./right < right.xml"); }
