/* The probes themselves: where tracef's own were declared too, they would be left out. */
#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#define LTTNG_UST_TRACEPOINT_DEFINE
#include "ust_tp.h"
