/* S-Net's interface for boxes on top of Thalweg's: a field of S-Net is the counted head of an array. */
#include "c4snet_table.h"

#include <limits.h>
#include <stdarg.h>
#include <stdio.h>

int node_location = 0;

/* Element types that only C knows; the network passes their bytes on. */
enum { ELEMENT_LDOUBLE = 11, ELEMENT_POINTER = 12 };

static const struct {
    uint64_t element;
    size_t bytes;
} types[] = {
    [CTYPE_uchar] = {THALWEG_U8, 1},
    [CTYPE_char] = {THALWEG_I8, 1},
    [CTYPE_ushort] = {THALWEG_U16, 2},
    [CTYPE_short] = {THALWEG_I16, 2},
    [CTYPE_uint] = {THALWEG_U32, 4},
    [CTYPE_int] = {THALWEG_I32, 4},
    [CTYPE_ulong] = {THALWEG_U64, 8},
    [CTYPE_long] = {THALWEG_I64, 8},
    [CTYPE_float] = {THALWEG_F32, 4},
    [CTYPE_double] = {THALWEG_F64, 8},
    [CTYPE_ldouble] = {ELEMENT_LDOUBLE, sizeof(long double)},
    [CTYPE_pointer] = {ELEMENT_POINTER, sizeof(void *)},
};

enum { TYPE_COUNT = sizeof types / sizeof types[0] };

static thalweg_heap *heap_of(c4snet_data_t *data) { return (thalweg_heap *)(void *)data; }

static c4snet_data_t *data_of(thalweg_value value) { return (c4snet_data_t *)(void *)value.as.heap; }

static thalweg_value value_of(c4snet_data_t *data) {
    thalweg_value value;
    value.kind = THALWEG_ARRAY;
    value.as.heap = heap_of(data);
    return value;
}

c4snet_data_t *C4SNetAlloc(c4snet_type_t type, size_t size, void **data) {
    thalweg_value value;
    if ((int)type < 0 || (int)type >= TYPE_COUNT || size > SIZE_MAX / types[type].bytes) {
        fprintf(stderr, "C4SNetAlloc: no memory for %zu elements of type %d\n", size, (int)type);
        abort();
    }
    value = thalweg_room(THALWEG_ARRAY, types[type].element, size * types[type].bytes, data);
    if (size == 1) value.as.heap->form |= THALWEG_SCALAR;
    return data_of(value);
}

c4snet_data_t *C4SNetCreate(c4snet_type_t type, size_t size, const void *data) {
    void *room;
    c4snet_data_t *made = C4SNetAlloc(type, size, &room);
    if (size != 0) memcpy(room, data, size * types[type].bytes);
    return made;
}

void C4SNetFree(c4snet_data_t *data) {
    thalweg_value value;
    if (data == NULL) return;
    value = value_of(data);
    thalweg_drop(&value);
}

c4snet_data_t *C4SNetShallowCopy(c4snet_data_t *data) {
    thalweg_value value;
    if (data == NULL) return NULL;
    value = value_of(data);
    return data_of(thalweg_copy(&value));
}

c4snet_data_t *C4SNetDeepCopy(c4snet_data_t *data) {
    if (data == NULL) return NULL;
    return C4SNetCreate(C4SNetGetType(data), C4SNetArraySize(data), C4SNetGetData(data));
}

void *C4SNetGetData(c4snet_data_t *data) { return heap_of(data)->data; }

c4snet_type_t C4SNetGetType(c4snet_data_t *data) {
    uint64_t element = heap_of(data)->form & 0xff;
    int type;
    for (type = 0; type < TYPE_COUNT; type++)
        if (types[type].element == element) return (c4snet_type_t)type;
    return CTYPE_uchar;
}

int C4SNetSizeof(c4snet_data_t *data) { return (int)types[C4SNetGetType(data)].bytes; }

size_t C4SNetArraySize(c4snet_data_t *data) { return (size_t)heap_of(data)->length / (size_t)C4SNetSizeof(data); }

int C4SNetGetInt(c4snet_data_t *data) {
    const void *first = C4SNetGetData(data);
    if (C4SNetArraySize(data) == 0) return 0;
    switch (C4SNetGetType(data)) {
    case CTYPE_uchar: return *(const unsigned char *)first;
    case CTYPE_char: return *(const signed char *)first;
    case CTYPE_ushort: return *(const unsigned short *)first;
    case CTYPE_short: return *(const short *)first;
    case CTYPE_uint: return (int)*(const unsigned int *)first;
    case CTYPE_int: return *(const int *)first;
    case CTYPE_ulong: return (int)*(const unsigned long *)first;
    case CTYPE_long: return (int)*(const long *)first;
    case CTYPE_float: return (int)*(const float *)first;
    case CTYPE_double: return (int)*(const double *)first;
    case CTYPE_ldouble: return (int)*(const long double *)first;
    default: return 0;
    }
}

char *C4SNetGetString(c4snet_data_t *data) {
    c4snet_type_t type = C4SNetGetType(data);
    size_t length = C4SNetArraySize(data);
    char *text;
    if (type != CTYPE_char && type != CTYPE_uchar) return NULL;
    text = (char *)thalweg_must(malloc(length + 1));
    memcpy(text, C4SNetGetData(data), length);
    text[length] = '\0';
    return text;
}

/* ---- emission -------------------------------------------------------------------------------------------------- */

/* The kinds of a variant's labels; NULL, and the record fails, if there is no such variant. */
static const char *labels_of(c4snet_call *call, int variant) {
    if (variant < 1 || variant > call->signature->count) {
        call->failure = "C4SNetOut with a variant that the box does not declare";
        return NULL;
    }
    return call->signature->variants[variant - 1];
}

static const char nothing[] = "null";

/* A field that may go into a record. NULL becomes JSON's null, and reaches the next box of S-Net as NULL again. */
static thalweg_value emitted(c4snet_data_t *data) {
    thalweg_value null;
    void *room;
    if (data != NULL) return value_of(data);
    null = thalweg_room(THALWEG_TEXT, THALWEG_JSON, sizeof nothing - 1, &room);
    memcpy(room, nothing, sizeof nothing - 1);
    return null;
}

/* Whether a value is what `emitted` makes of NULL. */
static bool is_nothing(const thalweg_value *value) {
    const thalweg_heap *text = value->as.heap;
    return thalweg_is_json(value) && text->length == sizeof nothing - 1 && memcmp(text->data, nothing, sizeof nothing - 1) == 0;
}

static void emit(c4snet_call *call, int variant, size_t count, thalweg_value *values) {
    if (call->failure == NULL)
        thalweg_emit(call->out, (uint32_t)variant, (uint32_t)count, values);
    else
        for (size_t index = 0; index < count; index++) thalweg_drop(&values[index]);
}

enum { FEW = 32 };

void C4SNetOut(void *handle, int variant, ...) {
    c4snet_call *call = (c4snet_call *)handle;
    const char *labels = labels_of(call, variant);
    thalweg_value few[FEW], *values = few;
    size_t count, index;
    va_list list;
    if (labels == NULL) return;
    count = strlen(labels);
    if (count > FEW) values = (thalweg_value *)thalweg_must(malloc(count * sizeof *values));
    va_start(list, variant);
    for (index = 0; index < count; index++)
        values[index] = labels[index] == 'f' ? emitted(va_arg(list, c4snet_data_t *)) : thalweg_int(va_arg(list, int));
    va_end(list);
    emit(call, variant, count, values);
    if (values != few) free(values);
}

struct container {
    c4snet_call *call;
    int variant;
    const char *labels;
    size_t set[3]; /* fields, tags, binding tags so far */
    thalweg_value values[];
};

c4snet_container_t *C4SNetContainerCreate(void *handle, int variant) {
    c4snet_call *call = (c4snet_call *)handle;
    const char *labels = labels_of(call, variant);
    size_t count = labels == NULL ? 0 : strlen(labels), index;
    c4snet_container_t *container =
        (c4snet_container_t *)thalweg_must(malloc(sizeof *container + count * sizeof(thalweg_value)));
    container->call = call;
    container->variant = variant;
    container->labels = labels == NULL ? "" : labels;
    memset(container->set, 0, sizeof container->set);
    for (index = 0; index < count; index++) container->values[index] = thalweg_int(0);
    return container;
}

/* Puts a value in the place of the next label of its kind. */
static void set(c4snet_container_t *container, char kind, thalweg_value value) {
    static const char kinds[] = "ftb";
    size_t *before = &container->set[strchr(kinds, kind) - kinds];
    size_t skip = (*before)++, index;
    for (index = 0; container->labels[index] != '\0'; index++) {
        if (container->labels[index] == kind && skip-- == 0) {
            container->values[index] = value;
            return;
        }
    }
    thalweg_drop(&value);
    container->call->failure = "a container was given more values than its variant has";
}

c4snet_container_t *C4SNetContainerSetField(c4snet_container_t *container, void *field) {
    set(container, 'f', emitted((c4snet_data_t *)field));
    return container;
}

c4snet_container_t *C4SNetContainerSetTag(c4snet_container_t *container, int value) {
    set(container, 't', thalweg_int(value));
    return container;
}

c4snet_container_t *C4SNetContainerSetBTag(c4snet_container_t *container, int value) {
    set(container, 'b', thalweg_int(value));
    return container;
}

void C4SNetContainerOut(c4snet_container_t *container) {
    size_t count = strlen(container->labels);
    if (container->call->failure == NULL && container->set[0] + container->set[1] + container->set[2] < count)
        container->call->failure = "a container was emitted before all of its values were set";
    emit(container->call, container->variant, count, container->values);
    free(container);
}

/* ---- the table's calls ----------------------------------------------------------------------------------------- */

c4snet_data_t *c4snet_field(c4snet_call *call, thalweg_value *argument) {
    thalweg_value value = thalweg_take(argument);
    c4snet_data_t *made = NULL;
    int64_t integer;
    double number;
    switch (value.kind) {
    case THALWEG_ARRAY: return data_of(value);
    case THALWEG_INT:
        integer = value.as.integer;
        if (integer >= INT_MIN && integer <= INT_MAX) {
            int narrow = (int)integer;
            return C4SNetCreate(CTYPE_int, 1, &narrow);
        }
        return C4SNetCreate(CTYPE_long, 1, &integer);
    case THALWEG_FLOAT:
        number = value.as.number;
        return C4SNetCreate(CTYPE_double, 1, &number);
    case THALWEG_TEXT:
        if (is_nothing(&value)) break;
        made = C4SNetCreate(CTYPE_char, (size_t)value.as.heap->length, value.as.heap->data);
        break;
    case THALWEG_BYTES: made = C4SNetCreate(CTYPE_uchar, (size_t)value.as.heap->length, value.as.heap->data); break;
    default: call->failure = "a box of S-Net cannot take an opaque value of another library"; break;
    }
    thalweg_drop(&value);
    return made;
}

int c4snet_tag(c4snet_call *call, const thalweg_value *argument) {
    int64_t integer = 0;
    if (!thalweg_get_int(argument, &integer) || integer < INT_MIN || integer > INT_MAX) {
        call->failure = "a tag does not fit the int that a box of S-Net takes";
        return 0;
    }
    return (int)integer;
}

thalweg_status c4snet_end(const c4snet_call *call) {
    return call->failure == NULL ? THALWEG_DONE : thalweg_fail(call->out, call->failure);
}
