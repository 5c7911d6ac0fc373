#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER thalweg_bench

#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "./one.h"

#if !defined(ONE_H) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)
#define ONE_H

#include <lttng/tracepoint.h>
#include <stdint.h>

LTTNG_UST_TRACEPOINT_EVENT(thalweg_bench, one, LTTNG_UST_TP_ARGS(uint64_t, number),
                           LTTNG_UST_TP_FIELDS(lttng_ust_field_integer(uint64_t, number, number)))

#endif

#include <lttng/tracepoint-event.h>
