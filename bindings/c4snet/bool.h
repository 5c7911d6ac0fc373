/* The name under which sources for S-Net find the type `bool`. */
#include <stdbool.h>
