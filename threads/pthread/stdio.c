/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Functions of the C library that may wait inside it: in the system call of a stream, for a stream's lock, for a name
 * server. A light thread makes them while its worker may be given away (ito_blocking_begin), so who ends the wait may
 * need that very worker. The lock of a stream knows its owner by the thread pointer, which is the thread's own.
 *
 * A cancellation ends the system call in them, as in calls.h, and they fail with EINTR: the C library would unwind the thread out of
 * the middle. Handlers of signals do not, as a stream does not go on after that.
 */
/* No definitions of these functions in the headers. */
#undef _FORTIFY_SOURCE
#ifndef __NO_INLINE__
#define __NO_INLINE__ 1
#endif
#include "calls.h"

#include <ito/io.h>
#include <netdb.h>
#include <stdarg.h>
#include <stdio.h>

#undef putc
#undef getc
#undef putchar
#undef getchar

struct away {
    ito_call call;
    int cancel_state, error;
};

static void begin(struct away *a, const char *name) {
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &a->cancel_state);
    ito_blocking_begin(&a->call, name);
}
static void end(struct away *a) {
    ito_blocking_end(&a->call);
    pthread_setcancelstate(a->cancel_state, NULL);
}

/* The same for a cancellation point. False: it has been cancelled, and end_point() does not return. */
static bool begin_point(struct away *a, const char *name) {
    a->error = errno;
    a->cancel_state = call_enter(CALL_RESTARTS);
    light_self.not_by_handlers = true;
    ito_blocking_begin(&a->call, name);
    bool began = ito__call_began(&a->call) || !(light_self.may_cancel && tls_cancelled_later());
    errno = 0;
    return began;
}
static void end_point(struct away *a, bool began) {
    bool interrupted = errno == EINTR || !began;
    a->error = errno ? errno : a->error;
    ito__call_over();
    light_self.may_cancel = light_self.not_by_handlers = false;
    ito_blocking_end(&a->call);
    pthread_setcancelstate(a->cancel_state, NULL);
    if (UNLIKELY(interrupted))
        REAL(pthread_testcancel)();
    errno = a->error;
}

/* X(result, name, parameters, arguments) */
#define FUNCTIONS(X)                                                                                                   \
    X(FILE *, fopen, (const char *path, const char *mode), (path, mode))                                               \
    X(FILE *, fopen64, (const char *path, const char *mode), (path, mode))                                             \
    X(int, fclose, (FILE * f), (f))                                                                                    \
    X(int, fflush, (FILE * f), (f))                                                                                    \
    X(size_t, fread, (void *data, size_t size, size_t n, FILE *f), (data, size, n, f))                                 \
    X(size_t, fwrite, (const void *data, size_t size, size_t n, FILE *f), (data, size, n, f))                          \
    X(int, fputs, (const char *s, FILE *f), (s, f))                                                                    \
    X(int, puts, (const char *s), (s))                                                                                 \
    X(int, fputc, (int c, FILE *f), (c, f))                                                                            \
    X(int, putc, (int c, FILE *f), (c, f))                                                                             \
    X(int, putchar, (int c), (c))                                                                                      \
    X(int, fgetc, (FILE * f), (f))                                                                                     \
    X(int, getc, (FILE * f), (f))                                                                                      \
    X(int, getchar, (void), ())                                                                                        \
    X(char *, fgets, (char *s, int n, FILE *f), (s, n, f))                                                             \
    X(ssize_t, getline, (char **s, size_t *n, FILE *f), (s, n, f))                                                     \
    X(ssize_t, getdelim, (char **s, size_t *n, int c, FILE *f), (s, n, c, f))                                          \
    X(int, vfprintf, (FILE * f, const char *format, va_list args), (f, format, args))                                  \
    X(int, vdprintf, (int fd, const char *format, va_list args), (fd, format, args))                                   \
    X(int, __vfprintf_chk, (FILE * f, int flag, const char *format, va_list args), (f, flag, format, args))            \
    X(char *, __fgets_chk, (char *s, size_t room, int n, FILE *f), (s, room, n, f))                                    \
    X(size_t, __fread_chk, (void *data, size_t room, size_t size, size_t n, FILE *f), (data, room, size, n, f))        \
    X(int, fsync, (int fd), (fd))                                                                                      \
    X(int, fdatasync, (int fd), (fd))                                                                                  \
    X(int, lockf64, (int fd, int what, off64_t bytes), (fd, what, bytes))                                              \
    X(int, lockf, (int fd, int what, off_t bytes), (fd, what, bytes))                                                  \
    X(int, getaddrinfo,                                                                                                \
      (const char *host, const char *service, const struct addrinfo *hints, struct addrinfo **found),                  \
      (host, service, hints, found))                                                                                   \
    X(int, getnameinfo,                                                                                                \
      (const struct sockaddr *address, socklen_t bytes, char *host, socklen_t host_bytes, char *service,               \
       socklen_t service_bytes, int flags),                                                                            \
      (address, bytes, host, host_bytes, service, service_bytes, flags))

#define AWAY_EXPORT(type, name, parameters, arguments)                                                                 \
    EXPORT type name parameters;                                                                                       \
    EXPORT type name parameters {                                                                                      \
        struct away a;                                                                                                 \
        if (!light_here())                                                                                             \
            return REAL(name) arguments;                                                                               \
        type r = (type)0;                                                                                              \
        bool began = begin_point(&a, #name);                                                                           \
        if (began)                                                                                                     \
            r = REAL(name) arguments;                                                                                  \
        end_point(&a, began);                                                                                          \
        return r;                                                                                                      \
    }
FUNCTIONS(AWAY_EXPORT)

EXPORT void flockfile(FILE *f) {
    struct away a;
    if (!light_here()) {
        REAL(flockfile)(f);
        return;
    }
    begin(&a, "flockfile");
    REAL(flockfile)(f);
    end(&a);
}

/* ---- with arguments of any number -------------------------------------------------------------------------------- */

#define PASS_ON(call)                                                                                                  \
    va_list args;                                                                                                      \
    va_start(args, format);                                                                                            \
    int r = call;                                                                                                      \
    va_end(args);                                                                                                      \
    return r

EXPORT int vprintf(const char *format, va_list args) {
    return vfprintf(stdout, format, args);
}
EXPORT int printf(const char *format, ...) {
    PASS_ON(vfprintf(stdout, format, args));
}
EXPORT int fprintf(FILE *f, const char *format, ...) {
    PASS_ON(vfprintf(f, format, args));
}
EXPORT int dprintf(int fd, const char *format, ...) {
    PASS_ON(vdprintf(fd, format, args));
}
EXPORT int __printf_chk(int flag, const char *format, ...);
EXPORT int __printf_chk(int flag, const char *format, ...) {
    PASS_ON(__vfprintf_chk(stdout, flag, format, args));
}
EXPORT int __fprintf_chk(FILE *f, int flag, const char *format, ...);
EXPORT int __fprintf_chk(FILE *f, int flag, const char *format, ...) {
    PASS_ON(__vfprintf_chk(f, flag, format, args));
}
EXPORT int __vprintf_chk(int flag, const char *format, va_list args);
EXPORT int __vprintf_chk(int flag, const char *format, va_list args) {
    return __vfprintf_chk(stdout, flag, format, args);
}
