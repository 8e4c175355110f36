/* Tracepoints with a field of every kind that LTTng-UST has. */
#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER golden
#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "./ust_tp.h"
#if !defined(UST_TP_H) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)
#define UST_TP_H
#include <lttng/tracepoint.h>
#include <stdint.h>

LTTNG_UST_TRACEPOINT_ENUM(golden, colour,
                          LTTNG_UST_TP_ENUM_VALUES(lttng_ust_field_enum_value("RED", 0)
                                                       lttng_ust_field_enum_value("GREEN", 1)
                                                           lttng_ust_field_enum_range("OTHER", 2, 9)))

LTTNG_UST_TRACEPOINT_EVENT(
    golden, all, LTTNG_UST_TP_ARGS(int64_t, n, const char *, text, double, x, const uint16_t *, few),
    LTTNG_UST_TP_FIELDS(lttng_ust_field_integer(int64_t, i64, n) lttng_ust_field_integer(uint8_t, u8, n)
                            lttng_ust_field_integer_hex(uint32_t, hex, n)
                                lttng_ust_field_integer_network(uint16_t, net, n) lttng_ust_field_float(double, dbl, x)
                                    lttng_ust_field_float(float, flt, x) lttng_ust_field_string(str, text)
                                        lttng_ust_field_array(uint16_t, arr, few, 3)
                                            lttng_ust_field_sequence(uint16_t, seq, few, size_t, n & 3)
                                                lttng_ust_field_array_text(char, chars, text, 4)
                                                    lttng_ust_field_enum(golden, colour, int, col, n & 3)))

LTTNG_UST_TRACEPOINT_EVENT(golden, work_begin, LTTNG_UST_TP_ARGS(int, item),
                           LTTNG_UST_TP_FIELDS(lttng_ust_field_integer(int, item, item)))
LTTNG_UST_TRACEPOINT_EVENT(golden, work_end, LTTNG_UST_TP_ARGS(int, result),
                           LTTNG_UST_TP_FIELDS(lttng_ust_field_integer(int, result, result)))
LTTNG_UST_TRACEPOINT_EVENT(golden, engine_start, LTTNG_UST_TP_ARGS(int, item),
                           LTTNG_UST_TP_FIELDS(lttng_ust_field_integer(int, item, item)))
#endif
#include <lttng/tracepoint-event.h>
