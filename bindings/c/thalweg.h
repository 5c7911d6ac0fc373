/* Boxes for Thalweg in C (C11): values, emission, and the table by which a library is found.
 *
 * A box is a function of the values that it reads from a record; it emits records by `thalweg_emit`. A box
 * keeps no state between calls and may run on any thread. A complete library:
 *
 *     #include "thalweg.h"
 *
 *     static thalweg_status add(const void *data, thalweg_value *arguments, uint32_t count, thalweg_out *out) {
 *         int64_t a, b;
 *         (void)data, (void)count;
 *         if (!thalweg_get_int(&arguments[0], &a) || !thalweg_get_int(&arguments[1], &b))
 *             return thalweg_fail(out, "a and b must be integers");
 *         thalweg_emit(out, 1, 1, (thalweg_value[]){thalweg_int(a + b)});
 *         return THALWEG_DONE;
 *     }
 *
 *     static const thalweg_box boxes[] = {THALWEG_BOX("box add ((a, b) -> (sum))", 2, add)};
 *     THALWEG_LIBRARY(boxes)
 *
 *     cc -std=c11 -shared -fPIC -O2 add.c -o libadd.so
 *     thalweg run NET.snet --boxes ./libadd.so
 *
 * Ownership: arguments belong to the network, which drops those that a box leaves. To keep or to emit an
 * argument, take it (`thalweg_take`) or copy it (`thalweg_copy`, which copies no bytes). Values that are
 * emitted belong to the network from then on.
 *
 * All types in this header stay the same for one value of THALWEG_ABI_VERSION. A library built with another
 * version is refused when it is loaded.
 */
#ifndef THALWEG_H
#define THALWEG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

#define THALWEG_ABI_VERSION 7u

/* ---- values ---------------------------------------------------------------------------------------------------- */

/* Kinds of values. */
enum {
    THALWEG_INT = 1,    /* a 64-bit integer; tags and binding tags are always this */
    THALWEG_FLOAT = 2,  /* a double */
    THALWEG_TEXT = 3,   /* UTF-8 */
    THALWEG_BYTES = 4,
    THALWEG_OPAQUE = 5, /* a value that only its library understands */
    THALWEG_ARRAY = 6   /* numbers of one machine type, or a single one that remembers its type */
};

/* Types of an array's elements. */
enum {
    THALWEG_I8 = 1, THALWEG_U8, THALWEG_I16, THALWEG_U16, THALWEG_I32, THALWEG_U32, THALWEG_I64, THALWEG_U64,
    THALWEG_F32, THALWEG_F64
};

/* A flag in an array's form, beside its element type: the array is a single number. */
#define THALWEG_SCALAR 0x100u
/* A text's form: the text is the JSON of a value, such as {"a": true}, and not a plain text. */
#define THALWEG_JSON 0x200u

struct thalweg_heap;

/* A value: 16 bytes. `heap` is valid for texts, bytes, opaque values and arrays. */
typedef struct thalweg_value {
    uint64_t kind;
    union {
        int64_t integer;
        double number;
        struct thalweg_heap *heap;
    } as;
} thalweg_value;

/* Appends `length` bytes to a text. */
typedef void (*thalweg_write)(void *to, const uint8_t *text, uint64_t length);

/* The description of a library's opaque values of one kind; static. Any of the functions may be NULL. */
typedef struct thalweg_opaque_kind {
    const char *name;
    /* Writes the value as text, for files and messages. */
    void (*text)(const void *value, thalweg_write write, void *to);
    /* Frees the value; called once, on any thread. */
    void (*free)(void *value);
    /* Makes a copy of the value, or returns NULL: for thalweg_make_mut_opaque. */
    void *(*copy)(const void *value);
    /* The bytes of memory of the value and of all that it refers to: for messages, and for the sizes of
     * records that `thalweg streams` shows. Called on any thread, for some of the records that have the
     * value, while no thread changes it. 0 if the size is not known. */
    uint64_t (*size)(const void *value);
    /* If not 0, other builds of this library (`thalweg reload`) read values of a kind with this name and
     * number. The number must change whenever the value's type does. If `layout` is 0, boxes that are loaded
     * again do not accept values of the former build. */
    uint64_t layout;
} thalweg_opaque_kind;

/* Counts the values that refer to a library, so that it can be unloaded after it was replaced. The owner is
 * in memory of the program, not of the library. */
typedef struct thalweg_owner {
    void (*made)(const struct thalweg_owner *owner);
    void (*gone)(const struct thalweg_owner *owner);
} thalweg_owner;

typedef struct thalweg_heap_table {
    void (*free)(struct thalweg_heap *heap);
    const thalweg_opaque_kind *kind; /* of opaque values only */
    const thalweg_owner *const *owner;
} thalweg_heap_table;

/* The owner that counts this library's values: one for all its files. The program that loads the library sets
 * the pointer to the owner. */
__attribute__((weak, visibility("hidden"))) const thalweg_owner *thalweg_library_owner;

/* The header of a counted value. The table of the library that made the value frees the value, so memory is
 * always freed by the allocator that gave it. */
typedef struct thalweg_heap {
    uint64_t references; /* owners, and the two marks below; changed atomically */
    const thalweg_heap_table *table;
    uint8_t *data;
    uint64_t length; /* bytes */
    uint64_t capacity;
    uint64_t form; /* arrays: element type and THALWEG_SCALAR; texts: 0 or THALWEG_JSON */
} thalweg_heap;

static inline bool thalweg_is_heap(const thalweg_value *value) {
    return value->kind >= THALWEG_TEXT && value->kind <= THALWEG_ARRAY;
}

/* Drops a value and leaves integer 0 in its place. */
static inline void thalweg_drop(thalweg_value *value) {
    if (thalweg_is_heap(value)) {
        thalweg_heap *heap = value->as.heap;
        if (__atomic_fetch_sub(&heap->references, 1, __ATOMIC_RELEASE) == 1) {
            const thalweg_owner *owner = heap->table->owner != NULL ? *heap->table->owner : NULL;
            __atomic_thread_fence(__ATOMIC_ACQUIRE);
            heap->table->free(heap);
            /* The library that made the value may be unloaded from here on, so nothing of it is used any
             * more. */
            if (owner != NULL) owner->gone(owner);
        }
    }
    value->kind = THALWEG_INT;
    value->as.integer = 0;
}

/* Moves the value out, leaving integer 0: the value then belongs to the caller and not to the network. */
static inline thalweg_value thalweg_take(thalweg_value *value) {
    thalweg_value taken = *value;
    value->kind = THALWEG_INT;
    value->as.integer = 0;
    return taken;
}

/* Another reference to the value: its memory is shared, not copied. */
static inline thalweg_value thalweg_copy(const thalweg_value *value) {
    if (thalweg_is_heap(value)) __atomic_fetch_add(&value->as.heap->references, 1, __ATOMIC_RELAXED);
    return *value;
}

/* A mark in a count of references: the network keeps the value until the call has succeeded; its only owner
 * may have changed it since, so it cannot be given back if the record fails. */
#define THALWEG_KEPT (UINT64_C(1) << 62)
#define THALWEG_CHANGED (UINT64_C(1) << 61)

/* Whether the value is not shared, so that it may be changed in place; check this right before changing it. */
static inline bool thalweg_is_unique(const thalweg_value *value) {
    uint64_t references;
    if (!thalweg_is_heap(value)) return false;
    references = __atomic_load_n(&value->as.heap->references, __ATOMIC_ACQUIRE);
    while (references == (THALWEG_KEPT | 1u))
        if (__atomic_compare_exchange_n(&value->as.heap->references, &references, references | THALWEG_CHANGED, true,
                                        __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
            return true;
    return references == 1 || references == (THALWEG_KEPT | THALWEG_CHANGED | 1u);
}

static inline thalweg_value thalweg_int(int64_t integer) {
    thalweg_value value;
    value.kind = THALWEG_INT;
    value.as.integer = integer;
    return value;
}

static inline thalweg_value thalweg_float(double number) {
    thalweg_value value;
    value.kind = THALWEG_FLOAT;
    value.as.number = number;
    return value;
}

static inline void thalweg_count_made(void) {
    if (thalweg_library_owner != NULL) thalweg_library_owner->made(thalweg_library_owner);
}

static inline void thalweg_free_plain(thalweg_heap *heap) { free(heap); }

/* Ends the program if the memory of a value could not be allocated, because an error could not be reported. */
static inline void *thalweg_must(void *memory) {
    if (memory == NULL) abort();
    return memory;
}

/* A text, bytes or array of `length` bytes, header and data in one block of memory. `*data` is where the
 * bytes are to be written. */
static inline thalweg_value thalweg_room(uint64_t kind, uint64_t form, size_t length, void **data) {
    static const thalweg_heap_table table = {thalweg_free_plain, NULL, &thalweg_library_owner};
    thalweg_value value;
    thalweg_heap *heap;
    if (length > SIZE_MAX - sizeof(thalweg_heap)) abort();
    heap = (thalweg_heap *)thalweg_must(malloc(sizeof(thalweg_heap) + length));
    thalweg_count_made();
    heap->references = 1;
    heap->table = &table;
    heap->data = (uint8_t *)(heap + 1);
    heap->length = length;
    heap->capacity = length;
    heap->form = form;
    if (data != NULL) *data = heap->data;
    value.kind = kind;
    value.as.heap = heap;
    return value;
}

/* Bytes, which are copied. */
static inline thalweg_value thalweg_bytes(const void *bytes, size_t length) {
    void *data;
    thalweg_value value = thalweg_room(THALWEG_BYTES, 0, length, &data);
    if (length != 0) memcpy(data, bytes, length);
    return value;
}

/* Whether these bytes are UTF-8 (Unicode 15, table 3-7). */
static inline bool thalweg_is_utf8(const char *text, size_t length) {
    const uint8_t *at = (const uint8_t *)text, *end = at + length;
    while (at < end) {
        uint8_t lead = *at++;
        int more = lead < 0x80 ? 0 : lead >= 0xC2 && lead <= 0xDF ? 1 : lead >= 0xE0 && lead <= 0xEF ? 2
                                 : lead >= 0xF0 && lead <= 0xF4 ? 3 : -1;
        uint8_t low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
        uint8_t high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
        if (more < 0 || end - at < more) return false;
        for (; more > 0; more--, at++, low = 0x80, high = 0xBF)
            if (*at < low || *at > high) return false;
    }
    return true;
}

/* A text, which is copied. A text that is not UTF-8 becomes bytes, because every text value must be UTF-8. */
static inline thalweg_value thalweg_text_of(const char *text, size_t length) {
    thalweg_value value = thalweg_bytes(text, length);
    if (thalweg_is_utf8(text, length)) value.kind = THALWEG_TEXT;
    return value;
}

/* A text that ends with a zero, which is copied. */
static inline thalweg_value thalweg_text(const char *text) { return thalweg_text_of(text, strlen(text)); }

/* The size of an element of this type in bytes; 0 if there is no such type. */
static inline size_t thalweg_element_bytes(uint64_t type) {
    switch (type) {
    case THALWEG_I8: case THALWEG_U8: return 1;
    case THALWEG_I16: case THALWEG_U16: return 2;
    case THALWEG_I32: case THALWEG_U32: case THALWEG_F32: return 4;
    case THALWEG_I64: case THALWEG_U64: case THALWEG_F64: return 8;
    default: return 0;
    }
}

/* An array of `count` elements of `type`, which are to be written at `*data`. */
static inline thalweg_value thalweg_array_room(uint64_t type, size_t count, void **data) {
    size_t bytes = thalweg_element_bytes(type);
    if (bytes == 0 || count > SIZE_MAX / bytes) abort();
    return thalweg_room(THALWEG_ARRAY, type, count * bytes, data);
}

/* An array of `count` elements of `type`, which are copied. */
static inline thalweg_value thalweg_array(uint64_t type, const void *elements, size_t count) {
    void *data;
    thalweg_value value = thalweg_array_room(type, count, &data);
    if (count != 0) memcpy(data, elements, count * thalweg_element_bytes(type));
    return value;
}

/* A single number of `type`; the value keeps the type. */
static inline thalweg_value thalweg_scalar(uint64_t type, const void *number) {
    thalweg_value value = thalweg_array(type, number, 1);
    value.as.heap->form |= THALWEG_SCALAR;
    return value;
}

static inline void thalweg_free_opaque(thalweg_heap *heap) {
    /* The table was allocated with the header: see thalweg_opaque. */
    const thalweg_opaque_kind *kind = heap->table->kind;
    if (kind->free != NULL) kind->free(heap->data);
    free(heap);
}

/* A value of a type of the library; it is passed from box to box and is freed by `kind->free`. */
static inline thalweg_value thalweg_opaque(const thalweg_opaque_kind *kind, void *data) {
    thalweg_value value;
    thalweg_heap *heap = (thalweg_heap *)thalweg_must(malloc(sizeof(thalweg_heap) + sizeof(thalweg_heap_table)));
    thalweg_heap_table *table = (thalweg_heap_table *)(heap + 1);
    thalweg_count_made();
    table->free = thalweg_free_opaque;
    table->kind = kind;
    table->owner = &thalweg_library_owner;
    heap->references = 1;
    heap->table = table;
    heap->data = (uint8_t *)data;
    heap->length = 0;
    heap->capacity = 0;
    heap->form = 0;
    value.kind = THALWEG_OPAQUE;
    value.as.heap = heap;
    return value;
}

/* The value of a single number of a machine type. */
static inline bool thalweg_scalar_int(const thalweg_heap *heap, int64_t *integer) {
    if ((heap->form & THALWEG_SCALAR) == 0) return false;
    switch (heap->form & 0xff) {
    case THALWEG_I8: *integer = *(const int8_t *)heap->data; return true;
    case THALWEG_U8: *integer = *(const uint8_t *)heap->data; return true;
    case THALWEG_I16: *integer = *(const int16_t *)(const void *)heap->data; return true;
    case THALWEG_U16: *integer = *(const uint16_t *)(const void *)heap->data; return true;
    case THALWEG_I32: *integer = *(const int32_t *)(const void *)heap->data; return true;
    case THALWEG_U32: *integer = *(const uint32_t *)(const void *)heap->data; return true;
    case THALWEG_I64: *integer = *(const int64_t *)(const void *)heap->data; return true;
    case THALWEG_U64:
        *integer = (int64_t) * (const uint64_t *)(const void *)heap->data;
        return *integer >= 0;
    default: return false;
    }
}

/* Whether a text is the JSON of a value. */
static inline bool thalweg_is_json(const thalweg_value *value) {
    return value->kind == THALWEG_TEXT && value->as.heap->form == THALWEG_JSON;
}

/* Readers return false if the value is of another kind, and then store nothing. JSON's true and false are 1
 * and 0. */
static inline bool thalweg_get_int(const thalweg_value *value, int64_t *integer) {
    if (value->kind == THALWEG_INT) {
        *integer = value->as.integer;
        return true;
    }
    if (value->kind == THALWEG_ARRAY) return thalweg_scalar_int(value->as.heap, integer);
    if (thalweg_is_json(value)) {
        const thalweg_heap *text = value->as.heap;
        bool is_true = text->length == 4 && memcmp(text->data, "true", 4) == 0;
        if (!is_true && !(text->length == 5 && memcmp(text->data, "false", 5) == 0)) return false;
        *integer = is_true;
        return true;
    }
    return false;
}

/* Reads a float; an integer is converted. */
static inline bool thalweg_get_float(const thalweg_value *value, double *number) {
    int64_t integer;
    if (value->kind == THALWEG_FLOAT) {
        *number = value->as.number;
        return true;
    }
    if (value->kind == THALWEG_ARRAY && (value->as.heap->form & THALWEG_SCALAR) != 0) {
        uint64_t type = value->as.heap->form & 0xff;
        const void *data = value->as.heap->data;
        if (type == THALWEG_F64 || type == THALWEG_F32) {
            *number = type == THALWEG_F64 ? *(const double *)data : (double)*(const float *)data;
            return true;
        }
    }
    if (!thalweg_get_int(value, &integer)) return false;
    *number = (double)integer;
    return true;
}

/* Reads a text: `length` bytes of UTF-8 at `*text`, without a final zero, valid as long as the value lives.
 * For nested JSON (and for true, false, null) the result is the text of the JSON, which `thalweg_is_json`
 * detects. */
static inline bool thalweg_get_text(const thalweg_value *value, const char **text, size_t *length) {
    if (value->kind != THALWEG_TEXT) return false;
    *text = (const char *)value->as.heap->data;
    *length = (size_t)value->as.heap->length;
    return true;
}

/* Reads bytes, which are valid as long as the value lives. */
static inline bool thalweg_get_bytes(const thalweg_value *value, const uint8_t **bytes, size_t *length) {
    if (value->kind != THALWEG_BYTES) return false;
    *bytes = value->as.heap->data;
    *length = (size_t)value->as.heap->length;
    return true;
}

/* Reads the elements of an array of `type`, which are valid as long as the value lives. */
static inline bool thalweg_get_array(const thalweg_value *value, uint64_t type, const void **elements, size_t *count) {
    if (value->kind != THALWEG_ARRAY || (value->as.heap->form & 0xff) != type) return false;
    *elements = value->as.heap->data;
    *count = (size_t)value->as.heap->length / thalweg_element_bytes(type);
    return true;
}

/* The bytes of a text, bytes or array for changing: in place if they are not shared, else of a copy that
 * becomes the value. A text must stay UTF-8; JSON becomes a plain text. NULL if the value is of another kind. */
static inline void *thalweg_make_mut(thalweg_value *value, size_t *length) {
    if (!thalweg_is_heap(value) || value->kind == THALWEG_OPAQUE) return NULL;
    if (!thalweg_is_unique(value) || thalweg_is_json(value)) {
        void *data;
        thalweg_heap *heap = value->as.heap;
        uint64_t form = value->kind == THALWEG_TEXT ? 0 : heap->form;
        thalweg_value copy = thalweg_room(value->kind, form, (size_t)heap->length, &data);
        if (heap->length != 0) memcpy(data, heap->data, (size_t)heap->length);
        thalweg_drop(value);
        *value = copy;
    }
    *length = (size_t)value->as.heap->length;
    return value->as.heap->data;
}

/* The library's own value of this kind; NULL if it is another value, or of a build of the library with
 * another layout. */
static inline void *thalweg_get_opaque(const thalweg_value *value, const thalweg_opaque_kind *kind) {
    const thalweg_opaque_kind *found;
    if (value->kind != THALWEG_OPAQUE) return NULL;
    found = value->as.heap->table->kind;
    if (found != kind && (kind->layout == 0 || found->layout != kind->layout || strcmp(found->name, kind->name) != 0))
        return NULL;
    return value->as.heap->data;
}

/* The library's own value for changing: in place if it is not shared, else a copy of it that becomes the
 * value. NULL if it is another value, or its kind cannot be copied. */
static inline void *thalweg_make_mut_opaque(thalweg_value *value, const thalweg_opaque_kind *kind) {
    void *data = thalweg_get_opaque(value, kind);
    if (data != NULL && !thalweg_is_unique(value)) {
        data = kind->copy != NULL ? kind->copy(data) : NULL;
        if (data == NULL) return NULL;
        thalweg_drop(value);
        *value = thalweg_opaque(kind, data);
    }
    return data;
}

/* ---- calls ----------------------------------------------------------------------------------------------------- */

/* The result of a call. */
typedef enum {
    THALWEG_DONE = 0,   /* the box has emitted all records for its input */
    THALWEG_FAILED = 1, /* the record fails, for the reason given to thalweg_fail */
    THALWEG_AGAIN = 2   /* a generator has more output */
} thalweg_status;

typedef struct thalweg_out thalweg_out;

typedef struct thalweg_out_table {
    void (*take)(thalweg_out *out);
    void (*fail)(thalweg_out *out, const uint8_t *reason, uint64_t length);
} thalweg_out_table;

/* The flag in the output's `emission` that a record is there. */
#define THALWEG_HELD (UINT64_C(1) << 63)

/* The output of a box during a call. Only the functions below use its fields. */
struct thalweg_out {
    void *host;
    const thalweg_out_table *table;
    thalweg_value *values;
    uint64_t emission; /* 0, or THALWEG_HELD, the count of values in the upper half and the variant in the lower */
    uint64_t capacity;
    struct {
        void *state;
        thalweg_status (*next)(void *state, thalweg_out *out);
        void (*drop)(void *state);
    } generator;
};

/* Emits a record of the `variant`-th variant of the signature, counted from 1, with its `count` values in the
 * order of the signature; they belong to the network from then on. A variant or a count that is not in the
 * signature fails the record. */
static inline void thalweg_emit(thalweg_out *out, uint32_t variant, uint32_t count, const thalweg_value *values) {
    uint32_t index;
    if (out->emission != 0) out->table->take(out);
    out->emission = THALWEG_HELD | (uint64_t)count << 32 | variant;
    for (index = 0; index < count; index++) {
        thalweg_value value = values[index], *slot = count <= out->capacity ? &out->values[index] : &value;
        /* The former value of the slot is dropped, and so are values for which there is no slot. */
        if (thalweg_is_heap(slot)) thalweg_drop(slot);
        if (slot != &value) *slot = value;
    }
}

/* Reports why the record fails. A box returns the result of this function: `return thalweg_fail(out, "…");`
   */
static inline thalweg_status thalweg_fail(thalweg_out *out, const char *reason) {
    out->table->fail(out, (const uint8_t *)reason, strlen(reason));
    return THALWEG_FAILED;
}

/* Continues to emit after the box has returned, when the network has space: `next` emits at most one record
 * per call and returns THALWEG_AGAIN until it has no more (then THALWEG_DONE). `drop` frees the state at the
 * end, also when the network is stopped. A call of a box can start one generator; both functions run on any
 * thread. Returns false if the call has already started a generator. */
static inline bool thalweg_generate(thalweg_out *out, void *state, thalweg_status (*next)(void *, thalweg_out *),
                                    void (*drop)(void *)) {
    if (out->generator.state != NULL || state == NULL) return false;
    out->generator.state = state;
    out->generator.next = next;
    out->generator.drop = drop;
    return true;
}

/* The function of a box: `data` is that of its entry, and the arguments are in the order of the signature. */
typedef thalweg_status (*thalweg_call)(const void *data, thalweg_value *arguments, uint32_t count, thalweg_out *out);

typedef struct thalweg_box {
    const uint8_t *signature;
    uint64_t signature_length;
    uint32_t argument_count;
    uint32_t blocking;
    thalweg_call call;
    const void *data;
    /* A function for many records at once, as libraries in Rust have; NULL if the program makes each call
     * itself. */
    void (*call_batch)(void);
} thalweg_box;

/* An entry: the signature as S-Net text (a literal), the number of arguments, the function. */
#define THALWEG_BOX(signature, argument_count, function) \
    { (const uint8_t *)(signature), sizeof(signature) - 1, (argument_count), 0, (function), NULL, NULL }

/* An entry for a box that waits for files, sockets or time: it gets a thread of its own. */
#define THALWEG_BLOCKING_BOX(signature, argument_count, function) \
    { (const uint8_t *)(signature), sizeof(signature) - 1, (argument_count), 1, (function), NULL, NULL }

/* ---- parameters and events ------------------------------------------------------------------------------------- */

/* A named number that a library shares with the observers of its network: a parameter that is set while the
 * network runs (`thalweg set box.NAME 3`), or state that boxes publish (`thalweg get 'box.*'`). All libraries
 * that name a parameter share it. Define a parameter by THALWEG_PARAMETER, static, and list it in
 * THALWEG_LIBRARY_WITH. */
typedef struct thalweg_parameter {
    const char *name, *unit, *doc;
    uint64_t min, max;
    uint64_t value; /* at the start, and while no network runs */
    uint64_t *cell; /* the cell of the value while a network runs; it belongs to the program */
} thalweg_parameter;

/* Initialises a parameter: texts, the smallest and the largest value, the initial value. */
#define THALWEG_PARAMETER(name, unit, doc, min, max, value) {(name), (unit), (doc), (min), (max), (value), NULL}

/* The present value, within its range. */
static inline uint64_t thalweg_read(thalweg_parameter *parameter) {
    uint64_t *cell = __atomic_load_n(&parameter->cell, __ATOMIC_ACQUIRE);
    uint64_t value = __atomic_load_n(cell != NULL ? cell : &parameter->value, __ATOMIC_RELAXED);
    return value < parameter->min ? parameter->min : value > parameter->max ? parameter->max : value;
}

/* Changes the value, limited to its range. The cost is one store, so a box may publish a value for each
 * record. */
static inline void thalweg_publish(thalweg_parameter *parameter, uint64_t value) {
    uint64_t *cell = __atomic_load_n(&parameter->cell, __ATOMIC_ACQUIRE);
    value = value < parameter->min ? parameter->min : value > parameter->max ? parameter->max : value;
    __atomic_store_n(cell != NULL ? cell : &parameter->value, value, __ATOMIC_RELAXED);
}

/* A field of an event: an integer or a double. */
typedef struct thalweg_event_field {
    const char *name, *unit;
    uint64_t kind; /* THALWEG_INT or THALWEG_FLOAT */
} thalweg_event_field;

typedef struct thalweg_event_host {
    void (*write)(const struct thalweg_event_host *host, const uint64_t *words);
} thalweg_event_host;

/* A kind of event that boxes write (`thalweg events` shows it as box.NAME), with 1 to 8 fields. Define a kind
 * by THALWEG_EVENT, static, and list it in THALWEG_LIBRARY_WITH. */
typedef struct thalweg_event_kind {
    const char *name, *doc;
    const thalweg_event_field *fields;
    uint64_t field_count;
    const thalweg_event_host *host; /* the program's */
} thalweg_event_kind;

/* Initialises a kind of event: texts, and an array of fields. */
#define THALWEG_EVENT(name, doc, fields) {(name), (doc), (fields), THALWEG_COUNT(fields), NULL}

/* A number of an event: an integer, or the bits of a double. */
static inline uint64_t thalweg_word(int64_t integer) { return (uint64_t)integer; }
static inline uint64_t thalweg_float_word(double number) {
    uint64_t word;
    memcpy(&word, &number, sizeof word);
    return word;
}

/* Writes an event with the present time: `words` has a number for each field. */
static inline void thalweg_event(thalweg_event_kind *kind, const uint64_t *words) {
    const thalweg_event_host *host = __atomic_load_n(&kind->host, __ATOMIC_ACQUIRE);
    if (host != NULL) host->write(host, words);
}

/* ---- the shared map -------------------------------------------------------------------------------------------- */

/* The most bytes of a text in the shared map. */
#define THALWEG_MAP_TEXT_BYTES 64

/* A value of the shared map: the bits of a number, or the length and the bytes of a text. */
typedef struct thalweg_map_value {
    uint64_t word;
    const uint8_t *text;
} thalweg_map_value;

typedef struct thalweg_map_host {
    uint32_t (*set)(const struct thalweg_map_host *host, const thalweg_map_value *value, thalweg_write fail, void *to);
    uint32_t (*compare_and_set)(const struct thalweg_map_host *host, const thalweg_map_value *expected,
                                const thalweg_map_value *value, thalweg_write fail, void *to);
    uint64_t (*read_text)(const struct thalweg_map_host *host, uint8_t *into);
} thalweg_map_host;

/* A key of the session's shared map: boxes of all libraries, on all nodes of a run, that name the key share its
 * value (`thalweg get 'map.*'`, `thalweg set map.NAME 3`). Define a key by THALWEG_MAP_INT, THALWEG_MAP_FLOAT or
 * THALWEG_MAP_TEXT, static, and list it in THALWEG_LIBRARY_WITH_MAP. */
typedef struct thalweg_map_key {
    const char *name, *doc;
    uint64_t kind; /* THALWEG_INT, THALWEG_FLOAT or THALWEG_TEXT */
    int64_t integer; /* at the start, and while no network runs */
    double number;
    const char *text;
    uint64_t *cell; /* the word of the value while a network runs; it belongs to the program */
    const thalweg_map_host *host; /* the program's */
} thalweg_map_key;

/* Initialises a key: texts, and the value at the start. */
#define THALWEG_MAP_INT(name, doc, value) {(name), (doc), THALWEG_INT, (value), 0.0, NULL, NULL, NULL}
#define THALWEG_MAP_FLOAT(name, doc, value) {(name), (doc), THALWEG_FLOAT, 0, (value), NULL, NULL, NULL}
#define THALWEG_MAP_TEXT(name, doc, value) {(name), (doc), THALWEG_TEXT, 0, 0.0, (value), NULL, NULL}

/* The present value of a key with integers, by one load. */
static inline int64_t thalweg_map_int(thalweg_map_key *key) {
    uint64_t *cell = __atomic_load_n(&key->cell, __ATOMIC_ACQUIRE);
    return cell != NULL ? (int64_t)__atomic_load_n(cell, __ATOMIC_RELAXED) : __atomic_load_n(&key->integer, __ATOMIC_RELAXED);
}

/* The present value of a key with floats, by one load. */
static inline double thalweg_map_float(thalweg_map_key *key) {
    uint64_t *cell = __atomic_load_n(&key->cell, __ATOMIC_ACQUIRE);
    uint64_t word;
    double number;
    if (cell == NULL) return key->number;
    word = __atomic_load_n(cell, __ATOMIC_RELAXED);
    memcpy(&number, &word, sizeof number);
    return number;
}

/* Copies the present value of a key with texts to `into`, which has room for THALWEG_MAP_TEXT_BYTES bytes, without
 * a final zero; returns its length. */
static inline size_t thalweg_map_text(thalweg_map_key *key, char *into) {
    const thalweg_map_host *host = __atomic_load_n(&key->host, __ATOMIC_ACQUIRE);
    size_t length;
    if (host != NULL) return (size_t)host->read_text(host, (uint8_t *)into);
    length = key->text != NULL ? strlen(key->text) : 0;
    if (length > THALWEG_MAP_TEXT_BYTES) length = THALWEG_MAP_TEXT_BYTES;
    if (length != 0) memcpy(into, key->text, length);
    return length;
}

static inline thalweg_map_value thalweg_map_word(uint64_t word, const char *text) {
    thalweg_map_value value;
    value.word = word;
    value.text = (const uint8_t *)text;
    return value;
}

static inline void thalweg_map_fail(void *to, const uint8_t *reason, uint64_t length) {
    thalweg_out *out = (thalweg_out *)to;
    out->table->fail(out, reason, length);
}

static inline thalweg_status thalweg_map_set(thalweg_map_key *key, uint64_t kind, thalweg_map_value value, thalweg_out *out) {
    const thalweg_map_host *host = __atomic_load_n(&key->host, __ATOMIC_ACQUIRE);
    if (key->kind != kind) return thalweg_fail(out, "the key of the shared map has values of another type");
    if (host == NULL) return thalweg_fail(out, "no network runs, so the shared map cannot be written");
    return host->set(host, &value, thalweg_map_fail, out) == 0 ? THALWEG_DONE : THALWEG_FAILED;
}

static inline thalweg_status thalweg_map_swap(thalweg_map_key *key, uint64_t kind, thalweg_map_value expected,
                                              thalweg_map_value value, bool *swapped, thalweg_out *out) {
    const thalweg_map_host *host = __atomic_load_n(&key->host, __ATOMIC_ACQUIRE);
    uint32_t done;
    *swapped = false;
    if (key->kind != kind) return thalweg_fail(out, "the key of the shared map has values of another type");
    if (host == NULL) return thalweg_fail(out, "no network runs, so the shared map cannot be written");
    done = host->compare_and_set(host, &expected, &value, thalweg_map_fail, out);
    *swapped = done == 0;
    return done <= 1 ? THALWEG_DONE : THALWEG_FAILED;
}

/* Writes a value in this process; the other processes of the session get it within about 50 ms. Of several writes
 * the last one wins. If the result is THALWEG_FAILED, the reason was given to `out`, and the box returns it. */
static inline thalweg_status thalweg_map_set_int(thalweg_map_key *key, int64_t value, thalweg_out *out) {
    return thalweg_map_set(key, THALWEG_INT, thalweg_map_word((uint64_t)value, NULL), out);
}
static inline thalweg_status thalweg_map_set_float(thalweg_map_key *key, double value, thalweg_out *out) {
    return thalweg_map_set(key, THALWEG_FLOAT, thalweg_map_word(thalweg_float_word(value), NULL), out);
}
static inline thalweg_status thalweg_map_set_text(thalweg_map_key *key, const char *text, size_t length, thalweg_out *out) {
    return thalweg_map_set(key, THALWEG_TEXT, thalweg_map_word(length, text), out);
}

/* Writes a value if the present one is `expected`, and stores whether it was. One process of the session decides, so
 * of all writes that expect the same value one is done. On another node than that process's, this waits up to about
 * 30 ms, so a box that does it often should be a THALWEG_BLOCKING_BOX. Failures are as in thalweg_map_set_int. */
static inline thalweg_status thalweg_map_swap_int(thalweg_map_key *key, int64_t expected, int64_t value, bool *swapped,
                                                  thalweg_out *out) {
    thalweg_map_value from = thalweg_map_word((uint64_t)expected, NULL);
    return thalweg_map_swap(key, THALWEG_INT, from, thalweg_map_word((uint64_t)value, NULL), swapped, out);
}
static inline thalweg_status thalweg_map_swap_float(thalweg_map_key *key, double expected, double value, bool *swapped,
                                                    thalweg_out *out) {
    thalweg_map_value from = thalweg_map_word(thalweg_float_word(expected), NULL);
    return thalweg_map_swap(key, THALWEG_FLOAT, from, thalweg_map_word(thalweg_float_word(value), NULL), swapped, out);
}
static inline thalweg_status thalweg_map_swap_text(thalweg_map_key *key, const char *expected, size_t expected_length,
                                                   const char *text, size_t length, bool *swapped, thalweg_out *out) {
    thalweg_map_value from = thalweg_map_word(expected_length, expected);
    return thalweg_map_swap(key, THALWEG_TEXT, from, thalweg_map_word(length, text), swapped, out);
}

/* ---- the library ----------------------------------------------------------------------------------------------- */

typedef struct thalweg_library {
    uint64_t magic; /* the bytes "thalwegB" */
    uint32_t abi_version;
    uint32_t box_count;
    const thalweg_box *boxes;
    thalweg_parameter *const *parameters;
    thalweg_event_kind *const *events;
    uint32_t parameter_count;
    uint32_t event_count;
    thalweg_status (*init)(thalweg_out *out);
    void (*finish)(void);
    const thalweg_owner **owner;
    thalweg_map_key *const *map_keys;
    uint64_t map_key_count;
} thalweg_library;

#define THALWEG_MAGIC UINT64_C(0x426765776c616874)

#ifdef __cplusplus
#define THALWEG_EXPORT extern "C" __attribute__((visibility("default")))
#else
#define THALWEG_EXPORT extern __attribute__((visibility("default")))
#endif

/* The number of elements of an array. */
#define THALWEG_COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* Exports the boxes of a library: once, at the end of a file. */
#define THALWEG_LIBRARY(boxes) THALWEG_LIBRARY_WITH(boxes, NULL, 0, NULL, 0, NULL, NULL)

/* Exports a library with more than boxes: arrays of pointers to parameters and to kinds of events with their
 * lengths (NULL and 0 for none), a function that runs before the first call of a box and may fail (it emits
 * nothing), and a function that runs after the last call, when no value of the library is left (NULL for
 * none). */
#define THALWEG_LIBRARY_WITH(boxes, parameters, parameter_count, events, event_count, init, finish) \
    THALWEG_LIBRARY_WITH_MAP(boxes, parameters, parameter_count, events, event_count, NULL, 0, init, finish)

/* Exports a library as THALWEG_LIBRARY_WITH does, with an array of pointers to keys of the shared map. */
#define THALWEG_LIBRARY_WITH_MAP(boxes, parameters, parameter_count, events, event_count, keys, key_count, init, finish) \
    THALWEG_EXPORT const thalweg_library *thalweg_boxes(void); \
    const thalweg_library *thalweg_boxes(void) { \
        static const thalweg_library library = {THALWEG_MAGIC, THALWEG_ABI_VERSION, (uint32_t)THALWEG_COUNT(boxes), (boxes), \
                                                (parameters), (events), (parameter_count), (event_count), (init), (finish), \
                                                &thalweg_library_owner, (keys), (key_count)}; \
        return &library; \
    }

#ifdef __cplusplus
}
#else
_Static_assert(sizeof(thalweg_value) == 16 && sizeof(thalweg_heap) == 48 && sizeof(thalweg_out) == 64, "the ABI's layout");
_Static_assert(sizeof(thalweg_opaque_kind) == 48 && sizeof(thalweg_heap_table) == 24, "the ABI's layout");
_Static_assert(sizeof(thalweg_parameter) == 56 && sizeof(thalweg_event_kind) == 40 && sizeof(thalweg_map_key) == 64, "the ABI's layout");
_Static_assert(sizeof(thalweg_box) == 48 && sizeof(thalweg_library) == 88 && sizeof(thalweg_status) == 4, "the ABI's layout");
#endif

#endif
