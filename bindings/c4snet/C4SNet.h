/* S-Net's interface for boxes in C, on top of Thalweg's: box sources written for S-Net compile and run
 * unchanged.
 *
 * A box is `void *NAME(void *handle, …)` with a `c4snet_data_t *` for each field of its input and an `int`
 * for each tag. The box owns its fields: it frees each (`C4SNetFree`), emits it, or both after a copy. The
 * table that maps Thalweg's calls to the boxes is made from the network's text:
 *
 *     thalweg wrap NET.snet --into DIR
 *     cc -shared -fPIC -O2 -IDIR DIR/NET_boxes.c DIR/c4snet.c BOXES.c -o libNET.so
 *     thalweg run NET.snet --boxes ./libNET.so --input RECORDS.xml --output RESULT.xml
 */
#ifndef THALWEG_C4SNET_H
#define THALWEG_C4SNET_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A counted field: a number of a C type, or an array of such numbers. */
typedef struct cdata c4snet_data_t;
/* A record that is built piece by piece. */
typedef struct container c4snet_container_t;

typedef enum {
    CTYPE_uchar,
    CTYPE_char,
    CTYPE_ushort,
    CTYPE_short,
    CTYPE_uint,
    CTYPE_int,
    CTYPE_ulong,
    CTYPE_long,
    CTYPE_float,
    CTYPE_double,
    CTYPE_ldouble, /* goes from box to box; files get its bytes */
    CTYPE_pointer  /* goes from box to box; files get the address */
} c4snet_type_t;

/* Emits a record of the `variant`-th variant of the box's output, counted from 1: a `c4snet_data_t *` for
 * each field, an `int` for each tag and binding tag, in the order of the signature. The fields belong to the
 * record from then on. A field that is NULL reaches the next box as NULL, and files as JSON's null. */
void C4SNetOut(void *handle, int variant, ...);

/* A field of `size` elements, which are to be written at `*data`; a `size` of 1 makes a single number. */
c4snet_data_t *C4SNetAlloc(c4snet_type_t type, size_t size, void **data);
/* A field filled with a copy of `data`. */
c4snet_data_t *C4SNetCreate(c4snet_type_t type, size_t size, const void *data);
/* Releases a field. */
void C4SNetFree(c4snet_data_t *data);
/* Adds an owner to a field and returns the same field. */
c4snet_data_t *C4SNetShallowCopy(c4snet_data_t *data);
/* A new field with the same elements. */
c4snet_data_t *C4SNetDeepCopy(c4snet_data_t *data);

/* The elements. */
void *C4SNetGetData(c4snet_data_t *data);
c4snet_type_t C4SNetGetType(c4snet_data_t *data);
/* The number of bytes of an element. */
int C4SNetSizeof(c4snet_data_t *data);
/* The first element converted to an `int`; 0 if there is none. */
int C4SNetGetInt(c4snet_data_t *data);
/* The number of elements. */
size_t C4SNetArraySize(c4snet_data_t *data);
/* A char array as a text that ends with a zero; the caller frees it. NULL if it is no char array. */
char *C4SNetGetString(c4snet_data_t *data);

/* A record of the `variant`-th variant: its fields, its tags and its binding tags are each set in the order
 * of the signature, then it is emitted. Each setter returns the container, as in the older versions of the
 * interface. */
c4snet_container_t *C4SNetContainerCreate(void *handle, int variant);
c4snet_container_t *C4SNetContainerSetField(c4snet_container_t *container, void *field);
c4snet_container_t *C4SNetContainerSetTag(c4snet_container_t *container, int value);
c4snet_container_t *C4SNetContainerSetBTag(c4snet_container_t *container, int value);
void C4SNetContainerOut(c4snet_container_t *container);

/* Names of the first versions of the interface. */
#define C4SNetDataCreate(type, data) C4SNetCreate((type), 1, (data))
#define C4SNetDataCreateArray(type, size, data) C4SNetCreate((type), (size), (data))
#define C4SNetDataGetData(data) C4SNetGetData(data)
#define C4SNetDataGetType(data) C4SNetGetType(data)
#define C4SNetDataShallowCopy(data) C4SNetShallowCopy(data)
#define C4SNetDataCopy(data) C4SNetDeepCopy(data)
#define C4SNetDataFree(data) C4SNetFree(data)
typedef c4snet_data_t C4SNet_data_t;
typedef c4snet_type_t C4SNet_type_t;
#define C4SNet_out C4SNetOut
#define C4SNet_outCompound(container) C4SNetContainerOut(container)
#define C4SNet_cdataCreate(type, data) C4SNetCreate((type), 1, (data))
#define C4SNet_cdataGetData(data) C4SNetGetData(data)
#define C4SNet_cdataGetType(data) C4SNetGetType(data)
#define C4SNet_containerCreate(handle, variant) C4SNetContainerCreate((handle), (variant))
#define C4SNet_containerSetField(container, field) C4SNetContainerSetField((container), (field))
#define C4SNet_containerSetTag(container, value) C4SNetContainerSetTag((container), (value))
#define C4SNet_containerSetBTag(container, value) C4SNetContainerSetBTag((container), (value))

/* The number of the node on which a box runs, which is always this one. */
extern int node_location;

#ifdef __cplusplus
}
#endif

#endif
