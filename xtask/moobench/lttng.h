#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER moobench

#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "lttng.h"

#if !defined(MOO_LTTNG_H) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)
#define MOO_LTTNG_H

#include <lttng/tracepoint.h>

LTTNG_UST_TRACEPOINT_EVENT(moobench, enter, LTTNG_UST_TP_ARGS(int, depth), LTTNG_UST_TP_FIELDS(lttng_ust_field_integer(int, depth, depth)))
LTTNG_UST_TRACEPOINT_EVENT(moobench, leave, LTTNG_UST_TP_ARGS(int, depth), LTTNG_UST_TP_FIELDS(lttng_ust_field_integer(int, depth, depth)))

#endif

#include <lttng/tracepoint-event.h>
