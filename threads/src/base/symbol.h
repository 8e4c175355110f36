/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Names of code and data, for people. */
#ifndef ITO_SYMBOL_H
#define ITO_SYMBOL_H

/* The name of the function or variable at `address`, from the symbol table of the file it was loaded from; "" when it
 * has none. In @path, unless it is null, that file. */
void ito__symbol(const void *address, char *name, unsigned room, char *path, unsigned path_room);

#endif
