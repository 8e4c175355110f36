/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Where the fields of the ABI are, on every CPU: as in crates/format/src/ring.rs. Included by reader.c. */
#ifndef KASURI_TESTS_ABI_H
#define KASURI_TESTS_ABI_H

#include <stddef.h>

#define AT(type, field, offset) _Static_assert(offsetof(struct type, field) == (offset), #type "." #field)
#define SIZE(type, bytes) _Static_assert(sizeof(struct type) == (bytes), #type)

SIZE(kasuri_control, 232);
AT(kasuri_control, state, 16);
AT(kasuri_control, chunk_bytes, 28);
AT(kasuri_control, max_bytes, 32);
AT(kasuri_control, first_chunks, 40);
AT(kasuri_control, refused, 60);
AT(kasuri_control, lost, 64);
AT(kasuri_control, foreign, 128);
AT(kasuri_control, hindrance, 136);
AT(kasuri_control, hindrance_limit, 168);
SIZE(kasuri_sites_header, 64);
AT(kasuri_sites_header, parent_next_id, 32);
SIZE(kasuri_site_def, 24);
AT(kasuri_site_def, func_len, 16);
SIZE(kasuri_segment, 256);
AT(kasuri_segment, clock, 40);
AT(kasuri_segment, start_stamp, 48);
AT(kasuri_segment, lost, 56);
SIZE(kasuri_chunk, 128);
AT(kasuri_chunk, used, 16);
AT(kasuri_chunk, flags, 20);
AT(kasuri_chunk, lost_first, 24);
AT(kasuri_chunk, lost, 40);

#undef AT
#undef SIZE
#endif
