/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A TLS block for each light thread, as the C library makes it for a kernel thread.
 *
 * The dynamic linker has functions for it, which the C library's own pthread_create calls: _dl_allocate_tls(),
 * _dl_deallocate_tls(), _dl_get_tls_static_info(). What is in the control block (struct pthread) differs from version
 * to version; the offsets of the fields that are needed come from the C library itself: it exports descriptors of
 * {bits, elements, offset} for libthread_db (_thread_db_pthread_tid, _thread_db_pthread_list, ...).
 *
 * A block lies at the high end of its stack, as NPTL puts it, and stays there when the stack is used again. A thread
 * that gets a used block finds the variables of all modules as their images say, but for those of the C library itself:
 * these are kept, as kept is what hangs on them (malloc's cache of the thread). What a thread could have left there that
 * its successor would see is set back in tls_begin() and here: the locale, errno.
 */
#include "light.h"

#include <dlfcn.h>
#include <link.h>
#include <linux/futex.h>
#include <locale.h>
#include <string.h>
#include <sys/rseq.h>
#include <sys/syscall.h>
#include <unistd.h>

intptr_t ito__tls_worker_at;
__thread struct light light_self;
extern const ptrdiff_t __rseq_offset __attribute__((weak));
extern const unsigned int __rseq_size __attribute__((weak));

static struct {
    void *(*allocate)(void *at);
    void (*deallocate)(void *at, bool free_block);
    void (*call_destructors)(void);
    size_t bytes, align, sizeof_pthread;
    uint32_t tid_at, list_at, cancel_at;
    intptr_t light_at;  /* of light_self, from a pthread_t */
    intptr_t robust_at; /* of the list of robust mutexes; 0: unknown */
    intptr_t libc_at;   /* of the C library's own variables, from the thread pointer */
    size_t libc_bytes;
    uint32_t last_tid; /* atomic */
} tls = {.last_tid = 1u << 24};

/* ---- setup ------------------------------------------------------------------------------------------------------- */

/* The third word of a descriptor for libthread_db. */
static bool field(const char *name, uint32_t *at) {
    const uint32_t *d = dlsym(RTLD_DEFAULT, name);
    if (d)
        *at = d[2];
    return d;
}

/* The module whose thread-local variables errno is one of. */
static int find_libc(struct dl_phdr_info *info, size_t bytes, void *unused) {
    (void)bytes;
    (void)unused;
    const char *at = info->dlpi_tls_data, *probe = (const char *)&errno;
    for (int i = 0; at && i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_TLS && probe >= at && probe < at + info->dlpi_phdr[i].p_memsz) {
            tls.libc_at = at - (const char *)arch_thread_pointer();
            tls.libc_bytes = info->dlpi_phdr[i].p_memsz;
        }
    return 0;
}

/* Called once, by a kernel thread. */
bool tls_setup(void) {
    void (*info)(size_t *, size_t *) = (void (*)(size_t *, size_t *))dlsym(RTLD_DEFAULT, "_dl_get_tls_static_info");
    tls.allocate = (void *(*)(void *))dlsym(RTLD_DEFAULT, "_dl_allocate_tls");
    tls.deallocate = (void (*)(void *, bool))dlsym(RTLD_DEFAULT, "_dl_deallocate_tls");
    tls.call_destructors = (void (*)(void))dlsym(RTLD_DEFAULT, "__call_tls_dtors");
    const uint32_t *sizeof_pthread = dlsym(RTLD_DEFAULT, "_thread_db_sizeof_pthread");
    if (!info || !tls.allocate || !tls.deallocate || !tls.call_destructors || !sizeof_pthread ||
        !field("_thread_db_pthread_tid", &tls.tid_at) || !field("_thread_db_pthread_list", &tls.list_at) ||
        !field("_thread_db_pthread_cancelhandling", &tls.cancel_at))
        return false;
    info(&tls.bytes, &tls.align);
    tls.sizeof_pthread = *sizeof_pthread;
    char *me = (char *)pthread_self();
    tls.light_at = (char *)&light_self - me;
    void *robust;
    size_t robust_bytes;
    if (syscall(SYS_get_robust_list, 0, &robust, &robust_bytes) == 0 && (char *)robust > me &&
        (char *)robust < me + tls.sizeof_pthread)
        tls.robust_at = (char *)robust - me;
    dl_iterate_phdr(find_libc, NULL);
    /* The descriptors must agree with this very thread. */
    pid_t tid;
    memcpy(&tid, me + tls.tid_at, sizeof tid);
    return tid == (pid_t)syscall(SYS_gettid) && tls.libc_bytes > 0;
}

/* pthread_cancel has set CANCELED, cancellation is not disabled, and the thread is not on its way out already, where it
 * may wait in its cleanup handlers: bits of glibc since 2.1. */
#define CANCEL_DISABLED 1u
#define CANCELED 8u
#define EXITING 16u
bool tls_cancelled(void) {
    const uint32_t *bits = (const uint32_t *)((char *)pthread_self() + tls.cancel_at);
    return tls.cancel_at && (load_relaxed(bits) & (CANCEL_DISABLED | CANCELED | EXITING)) == CANCELED;
}

int tls_tid(void) {
    int tid;
    memcpy(&tid, (char *)pthread_self() + tls.tid_at, sizeof tid);
    return tid;
}

size_t tls_bytes(void) {
    return tls.bytes + tls.align + 64;
}

struct light *light_of(pthread_t id) {
    return (struct light *)((char *)id + tls.light_at);
}

/* ---- blocks ------------------------------------------------------------------------------------------------------ */

/* Fields of struct pthread that creation sets. Thread ids of light threads are no kernel's: they begin above the
 * largest that Linux gives (2^22), and fit the owner field of a futex. */
static void fill(char *tp) {
    char *id = (char *)ARCH_PTHREAD_OF(tp);
    arch_fill(tp, arch_thread_pointer());
    uint32_t tid = __atomic_add_fetch(&tls.last_tid, 1, __ATOMIC_RELAXED) & FUTEX_TID_MASK;
    memcpy(id + tls.tid_at, &tid, sizeof tid);
    memset(id + tls.cancel_at, 0, sizeof(int));
    void *list = id + tls.list_at; /* on no list: fork() takes its caller off the list that it is on */
    memcpy(id + tls.list_at, &(void *[2]){list, list}, 2 * sizeof(void *));
    if (tls.robust_at) { /* empty: it points to itself, and so does robust_prev, the word before */
        void *head = id + tls.robust_at;
        memcpy(id + tls.robust_at - sizeof head, &head, sizeof head);
        memcpy(head, &head, sizeof head);
        memcpy(id + tls.robust_at + sizeof head, (char *)pthread_self() + tls.robust_at + sizeof head, sizeof(long));
    }
    if (&__rseq_size && __rseq_size) { /* sched_getcpu() asks the kernel instead */
        struct rseq *rseq = (struct rseq *)(tp + __rseq_offset);
        rseq->cpu_id_start = 0;
        rseq->cpu_id = (uint32_t)RSEQ_CPU_ID_REGISTRATION_FAILED;
    }
}

/* Other modules' variables as their images say; the C library's own as the thread before has left them. */
static bool renew(char *tp) {
    char kept[1024];
    if (tls.libc_bytes > sizeof kept)
        return false;
    memcpy(kept, tp + tls.libc_at, tls.libc_bytes);
    tls.deallocate(tp, false);
    if (!tls.allocate(tp))
        return false;
    memcpy(tp + tls.libc_at, kept, tls.libc_bytes);
    *(int *)(tp + ((char *)&errno - (char *)arch_thread_pointer())) = 0;
    return true;
}

bool tls_ready(struct ito__stack *stack, char **stack_high) {
    char *low, *tp = arch_place((char *)stack, tls.bytes, tls.align, tls.sizeof_pthread, &low);
    *stack_high = low;
    if (stack->tls == NULL ? tls.allocate(tp) == NULL : !renew(tp)) {
        stack->tls = NULL; /* without its vector: made anew next time */
        return false;
    }
    stack->tls = tp;
    fill(tp);
    return true;
}

/* As the C library begins a thread: the tables of isalpha(), of printf's digits and the like are thread-local pointers,
 * null in a fresh block. */
void tls_begin(void) {
    uselocale(LC_GLOBAL_LOCALE);
}

void tls_end(void) {
    tls.call_destructors();
}
