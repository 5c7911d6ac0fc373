/* The definitions for the table of a network's boxes (`thalweg wrap`). Boxes do not use them. */
#ifndef THALWEG_C4SNET_TABLE_H
#define THALWEG_C4SNET_TABLE_H

#include "C4SNet.h"
#include "thalweg.h"

/* The output of a box: for each variant the kinds of its labels in order, `f` a field, `t` a tag, `b` a binding tag. */
typedef struct {
    const char *const *variants;
    int count;
} c4snet_signature;

/* A call of a box, to which its handle points. */
typedef struct {
    thalweg_out *out;
    const c4snet_signature *signature;
    const char *failure;
} c4snet_call;

/* The field in an argument, owned by the caller. NULL if a box emitted NULL, or if boxes of S-Net cannot
 * accept such a value. */
c4snet_data_t *c4snet_field(c4snet_call *call, thalweg_value *argument);
/* The tag in an argument. */
int c4snet_tag(c4snet_call *call, const thalweg_value *argument);
/* Whether an argument could not be passed to the box. */
static inline bool c4snet_refused(const c4snet_call *call) { return call->failure != NULL; }
/* The result of the call. */
thalweg_status c4snet_end(const c4snet_call *call);

#endif
