#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "C4SNet.h"

void *shout(void *hnd, c4snet_data_t *text) {
    char *letters = C4SNetGetString(text);
    int length = (int)strlen(letters), i;
    C4SNetFree(text);
    if (length == 0) {
        C4SNetOut(hnd, 2, 1);
    } else {
        for (i = 0; i < length; i++) letters[i] = (char)toupper((unsigned char)letters[i]);
        C4SNetOut(hnd, 1, C4SNetCreate(CTYPE_char, (size_t)length, letters), C4SNetDataCreate(CTYPE_int, &length));
    }
    free(letters);
    return hnd;
}
