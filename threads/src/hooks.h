/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Where sanitizers and valgrind are told about stacks and switches. */
#ifndef ITO_HOOKS_H
#define ITO_HOOKS_H

#define ITO__HOOK_STACK_NEW(low, high) ((void)0)
#define ITO__HOOK_STACK_GONE(low, high) ((void)0)
#define ITO__HOOK_LEAVE(thread, next, ending) ((void)0)
#define ITO__HOOK_ENTER(thread) ((void)0)

#endif
