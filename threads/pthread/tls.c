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
 *
 * The linker's functions take a quarter of the time of a create and a join. So the variables are copied from an *image*: a
 * block that these functions made once, as it was then. It holds as long as no module with thread-local storage is loaded
 * or unloaded: each such event gives the module's place in the linker's list, whose form is told to libthread_db too, a
 * new generation. Only where all modules lie in the block is there an image, so a block of the same image has no memory
 * of its own for one that does not.
 */
#include "light.h"

#include <dlfcn.h>
#include <link.h>
#include <linux/futex.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#if __has_include(<sys/rseq.h>)
#include <sys/rseq.h>
#else /* glibc before 2.35 registers no area, and has no __rseq_size */
#include <linux/rseq.h>
#define RSEQ_SIG 0
#endif

intptr_t ito__tls_worker_at, ito__tls_out_at;
size_t ito__tls_sizeof_pthread;
__thread struct light light_self;
extern const ptrdiff_t __rseq_offset __attribute__((weak));
extern const unsigned int __rseq_size __attribute__((weak));

static struct {
    void *(*allocate)(void *at);
    void (*deallocate)(void *at, bool free_block);
    void (*call_destructors)(void);
    size_t bytes, align;
    uint32_t tid_at, list_at, cancel_at;
    intptr_t robust_at; /* of the list of robust mutexes; 0: unknown */
    intptr_t libc_at;   /* of the C library's own variables, from the thread pointer */
    size_t libc_bytes;
    uint32_t tids; /* atomic: ranges of TIDS thread ids given out */
    struct ito__spin image_lock;
    struct image *image; /* atomic; null: none yet */
    uint32_t n_images;   /* image_lock */
} tls;

/* The linker's list of modules with thread-local storage, a module's number being its place in it, and the vector of
 * pointers to their variables that each thread has. */
static struct {
    const char *const *list; /* null: not known here */
    uint32_t len_at, slots_at, gen_at, map_at, slot_bytes;
    uint32_t vector_at, pointer_at, pointer_bytes;
} modules;

/* ---- setup ------------------------------------------------------------------------------------------------------- */

/* The third word of a descriptor for libthread_db. */
static bool field(const char *name, uint32_t *at) {
    const uint32_t *d = tls_descriptor(name);
    if (d)
        *at = d[2];
    return d;
}

/* The module whose thread-local variables errno is one of. */
static int find_libc(struct dl_phdr_info *info, size_t bytes, void *module) {
    (void)bytes;
    const char *at = info->dlpi_tls_data, *probe = (const char *)&errno;
    for (int i = 0; at && i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_TLS && probe >= at && probe < at + info->dlpi_phdr[i].p_memsz) {
            tls.libc_at = at - (const char *)arch_thread_pointer();
            tls.libc_bytes = info->dlpi_phdr[i].p_memsz;
            *(size_t *)module = info->dlpi_tls_modid;
        }
    return 0;
}

/* Where the variables of a module lie, as the vector of a block says; all ones: nowhere until they are used. */
static char *variables_of(char *tp, size_t module) {
    char *vector, *at;
    memcpy(&vector, (char *)ARCH_PTHREAD_OF(tp) + modules.vector_at, sizeof vector);
    memcpy(&at, vector + module * modules.pointer_bytes + modules.pointer_at, sizeof at);
    return at;
}

/* Where it does not succeed, blocks are made by the linker's functions each time. */
static void modules_setup(size_t libc) {
    const char *global = dlsym(RTLD_DEFAULT, "_rtld_global");
    const uint32_t *bytes = tls_descriptor("_thread_db_sizeof_dtv_slotinfo");
    const uint32_t *dtv = tls_descriptor("_thread_db_dtv_dtv");
    uint32_t list_at;
    if (!global || !bytes || !dtv || !field("_thread_db_rtld_global__dl_tls_dtv_slotinfo_list", &list_at) ||
        !field("_thread_db_dtv_slotinfo_list_len", &modules.len_at) ||
        !field("_thread_db_dtv_slotinfo_list_slotinfo", &modules.slots_at) ||
        !field("_thread_db_dtv_slotinfo_gen", &modules.gen_at) ||
        !field("_thread_db_dtv_slotinfo_map", &modules.map_at) ||
        !field("_thread_db_pthread_dtvp", &modules.vector_at) ||
        !field("_thread_db_dtv_t_pointer_val", &modules.pointer_at))
        return;
    modules.slot_bytes = *bytes;
    modules.pointer_bytes = dtv[0] / 8; /* of one element, in bits */
    /* As for the other descriptors: they must agree with this very thread. */
    char *tp = arch_thread_pointer();
    if (libc && variables_of(tp, libc) == tp + tls.libc_at)
        modules.list = (const char *const *)(global + list_at);
}

static bool setup(void) {
    void (*info)(size_t *, size_t *) = (void (*)(size_t *, size_t *))dlsym(RTLD_DEFAULT, "_dl_get_tls_static_info");
    tls.allocate = (void *(*)(void *))dlsym(RTLD_DEFAULT, "_dl_allocate_tls");
    tls.deallocate = (void (*)(void *, bool))dlsym(RTLD_DEFAULT, "_dl_deallocate_tls");
    tls.call_destructors = (void (*)(void))dlsym(RTLD_DEFAULT, "__call_tls_dtors");
    const uint32_t *sizeof_pthread = tls_descriptor("_thread_db_sizeof_pthread");
    if (!info || !tls.allocate || !tls.deallocate || !tls.call_destructors || !sizeof_pthread ||
        !field("_thread_db_pthread_tid", &tls.tid_at) || !field("_thread_db_pthread_list", &tls.list_at) ||
        !field("_thread_db_pthread_cancelhandling", &tls.cancel_at))
        return false;
    info(&tls.bytes, &tls.align);
    ito__tls_sizeof_pthread = *sizeof_pthread;
    char *me = (char *)pthread_self();
    if (ARCH_PTHREAD_OF(arch_thread_pointer()) != (uintptr_t)me)
        return false;
    void *robust;
    size_t robust_bytes;
    if (syscall(SYS_get_robust_list, 0, &robust, &robust_bytes) == 0 && (char *)robust > me &&
        (char *)robust < me + ito__tls_sizeof_pthread)
        tls.robust_at = (char *)robust - me;
    size_t libc = 0;
    dl_iterate_phdr(find_libc, &libc);
    modules_setup(libc);
    /* The descriptors must agree with this very thread. */
    pid_t tid;
    memcpy(&tid, me + tls.tid_at, sizeof tid);
    return tid == (pid_t)syscall(SYS_gettid) && tls.libc_bytes > 0;
}

/* Called once, by a kernel thread. */
bool tls_setup(void) {
    bool works = setup();
    tls_descriptors_end();
    return works;
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
bool tls_cancelled_later(void) {
    const uint32_t *bits = (const uint32_t *)((char *)pthread_self() + tls.cancel_at);
    return tls.cancel_at && (load_relaxed(bits) & (CANCELED | EXITING)) == CANCELED;
}

int tls_tid(void) {
    int tid;
    memcpy(&tid, (char *)pthread_self() + tls.tid_at, sizeof tid);
    return tid;
}

void tls_set_tid(pthread_t id, int tid) {
    memcpy((char *)id + tls.tid_at, &tid, sizeof tid);
}

char *tls_kernel_pointer(void) {
    void *robust = light_self.carrier_robust;
    size_t bytes;
    if (light_self.kind != LIGHT_PINNED && syscall(SYS_get_robust_list, 0, &robust, &bytes))
        robust = NULL;
    return robust && tls.robust_at ? ARCH_POINTER_OF((char *)robust - tls.robust_at) : arch_thread_pointer();
}

void *tls_robust_list(void) {
    return tls.robust_at ? (char *)pthread_self() + tls.robust_at : NULL;
}

size_t tls_bytes(void) {
    return arch_block_bytes(tls.bytes, ito__tls_sizeof_pthread) + tls.align + 64;
}

/* Also before tls_setup(): main may ask about itself before it has created a thread. */
struct light *light_of(pthread_t id) {
    return (struct light *)((char *)id + ((char *)&light_self - (char *)pthread_self()));
}

/* ---- blocks ------------------------------------------------------------------------------------------------------ */

/* Thread ids of light threads are no kernel's: they lie above the largest that Linux gives (2^22), and fit the owner field
 * of a futex. A block takes so many at a time, one for each thread that it serves. */
#define TIDS 16u
#define FIRST_TID (1u << 24)

static uint32_t next_tid(uint32_t last) {
    if (last != 0 && (last + 1) % TIDS != 0)
        return last + 1;
    uint32_t range = __atomic_fetch_add(&tls.tids, 1, __ATOMIC_RELAXED);
    return FIRST_TID + range % ((FUTEX_TID_MASK + 1 - FIRST_TID) / TIDS) * TIDS;
}

/* Fields of struct pthread that creation sets. */
static void fill(char *tp, uint32_t tid) {
    char *id = (char *)ARCH_PTHREAD_OF(tp);
    arch_fill(tp, arch_thread_pointer());
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
    /* Not registered, also where the kernel refuses it to all: a kernel thread is made with what its maker's says. sched_getcpu()
     * asks the kernel instead. */
    if (&__rseq_offset && __rseq_offset) {
        struct rseq *rseq = (struct rseq *)(tp + __rseq_offset);
        rseq->cpu_id_start = 0;
        rseq->cpu_id = (uint32_t)RSEQ_CPU_ID_REGISTRATION_FAILED;
    }
}

/* ---- images ------------------------------------------------------------------------------------------------------ */

#define MODULES 62u /* the list's first part has as many places, and more */
#define IMAGES 64u  /* in the life of a process: they are not freed, as a thread may be reading one */

/*
 * What a fresh block holds, but for the C library's variables. Nobody writes it once it is published.
 *
 * gen[m]: the generation of module m, and of the place behind the last one, where the next is put
 */
struct image {
    uint32_t n_modules, n_parts;
    bool whole; /* all modules lie in the block: it may be copied */
    uintptr_t gen[MODULES + 1];
    struct {
        intptr_t at; /* from the thread pointer */
        size_t bytes;
        const char *data;
    } part[MODULES];
};

static const char *slot_of(uint32_t module) {
    return *modules.list + modules.slots_at + module * modules.slot_bytes;
}

/* Relaxed: another thread may be loading a library. A thread that was told of it reads what that load has left. */
static uintptr_t gen_of(uint32_t module) {
    return __atomic_load_n((const uintptr_t *)(slot_of(module) + modules.gen_at), __ATOMIC_RELAXED);
}
static bool is_used(uint32_t module) {
    return __atomic_load_n((const uintptr_t *)(slot_of(module) + modules.map_at), __ATOMIC_RELAXED) != 0;
}

/* No module has come or gone since. */
static bool image_holds(const struct image *image) {
    for (uint32_t m = 1; m <= image->n_modules + 1; m++)
        if (gen_of(m) != image->gen[m])
            return false;
    return true;
}

/* Return: how many modules there are. */
static uint32_t read_gens(struct image *image) {
    size_t len = *(const size_t *)(*modules.list + modules.len_at);
    uint32_t used = 0, places = len <= MODULES ? (uint32_t)len : MODULES + 1;
    for (uint32_t m = 1; m < places; m++) {
        image->gen[m] = gen_of(m);
        if (is_used(m)) {
            used++;
            image->n_modules = m;
        }
    }
    if (image->n_modules + 1 < places)
        return used;
    image->n_modules--; /* some may be beyond */
    return UINT32_MAX;
}

struct walk {
    struct image *image;
    char *tp;       /* of a fresh block */
    uint32_t found; /* modules that lie in it */
};

static int add_part(struct dl_phdr_info *info, size_t bytes, void *walk) {
    (void)bytes;
    struct walk *w = walk;
    struct image *image = w->image;
    if (info->dlpi_tls_modid == 0 || info->dlpi_tls_modid > image->n_modules)
        return 0;
    char *at = variables_of(w->tp, info->dlpi_tls_modid);
    if (!arch_is_in_block(at, w->tp, tls.bytes))
        return 0;
    w->found++;
    for (int i = 0; i < info->dlpi_phnum && at - w->tp != tls.libc_at; i++)
        if (info->dlpi_phdr[i].p_type == PT_TLS) {
            image->part[image->n_parts].at = at - w->tp;
            image->part[image->n_parts].data = at;
            image->part[image->n_parts++].bytes = info->dlpi_phdr[i].p_memsz;
        }
    return 0;
}

/* Null: a module came or went meanwhile, or there is no memory. */
static struct image *image_new(void) {
    struct image *image = calloc(1, sizeof *image);
    char *room = malloc(tls_bytes()), *low;
    struct walk w = {.image = image};
    if (image && room) {
        uint32_t used = read_gens(image);
        w.tp = arch_place(room + tls_bytes(), tls.bytes, tls.align, ito__tls_sizeof_pthread, &low);
        if (tls.allocate(w.tp)) {
            dl_iterate_phdr(add_part, &w);
            image->whole = w.found == used;
            if (image_holds(image))
                return image; /* its parts lie in `room` */
            tls.deallocate(w.tp, false);
        }
    }
    free(room);
    free(image);
    return NULL;
}

/* The image that holds now; null: there is none. */
static const struct image *image_now(void) {
    /* ORDER acquire; pairs with the release store below. Shows the image. */
    struct image *image = load_acquire(&tls.image);
    if (LIKELY(image && image_holds(image)))
        return image;
    if (!modules.list || !ito__spin_try(&tls.image_lock)) /* another thread makes one: it may take its time */
        return NULL;
    image = tls.n_images < IMAGES ? image_new() : NULL;
    if (image) {
        tls.n_images++;
        /* ORDER release; pairs with the acquire load above. Publishes the image. */
        store_release(&tls.image, image);
    }
    ito__spin_unlock(&tls.image_lock);
    return image;
}

/* ---- used blocks ------------------------------------------------------------------------------------------------- */

/* By the linker's own functions. */
static bool renew_slowly(char *tp) {
    char kept[1024];
    if (tls.libc_bytes > sizeof kept)
        return false;
    memcpy(kept, tp + tls.libc_at, tls.libc_bytes);
    tls.deallocate(tp, false);
    if (!tls.allocate(tp))
        return false;
    memcpy(tp + tls.libc_at, kept, tls.libc_bytes);
    return true;
}

/* Other modules' variables as they are at first; the C library's own as the thread before has left them. */
static bool renew(char *tp, const struct image *image) {
    if (image && image->whole && light_of((pthread_t)ARCH_PTHREAD_OF(tp))->image == image) {
        for (uint32_t i = 0; i < image->n_parts; i++)
            memcpy(tp + image->part[i].at, image->part[i].data, image->part[i].bytes);
    } else if (!renew_slowly(tp)) {
        return false;
    }
    *(int *)(tp + ((char *)&errno - (char *)arch_thread_pointer())) = 0;
    return true;
}

bool tls_ready(struct ito__stack *stack, char **stack_high) {
    char *low, *tp = arch_place((char *)stack, tls.bytes, tls.align, ito__tls_sizeof_pthread, &low);
    struct light *l = light_of((pthread_t)ARCH_PTHREAD_OF(tp));
    const struct image *image = image_now();
    uint32_t last_tid = stack->tls ? l->tid : 0;
    *stack_high = low;
    if (stack->tls == NULL ? tls.allocate(tp) == NULL : !renew(tp, image)) {
        stack->tls = NULL; /* without its vector: made anew next time */
        return false;
    }
    stack->tls = tp;
    l->image = image;
    l->tid = next_tid(last_tid);
    fill(tp, l->tid);
    return true;
}

/* The kernel wants the size that was registered: glibc's is the kernel's, and at least the first version's. */
void tls_forget_rseq(char *kernel_pointer) {
    if (kernel_pointer == NULL || !&__rseq_size || __rseq_size == 0)
        return;
    int saved = errno;
    struct rseq *area = (struct rseq *)(void *)(kernel_pointer + __rseq_offset);
    if (syscall(SYS_rseq, area, 32, RSEQ_FLAG_UNREGISTER, RSEQ_SIG) != 0)
        syscall(SYS_rseq, area, __rseq_size, RSEQ_FLAG_UNREGISTER, RSEQ_SIG);
    errno = saved;
}

/* As the C library begins a thread: the tables of isalpha(), of printf's digits and the like are thread-local pointers,
 * null in a fresh block. */
void tls_begin(void) {
    uselocale(LC_GLOBAL_LOCALE);
}

void tls_end(void) {
    tls.call_destructors();
}
