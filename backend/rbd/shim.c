//go:build rbd && cgo && linux

// librbd is loaded at run time and its header is not needed: what is used of it is declared here. Package librados has
// loaded what librbd needs.

#define _GNU_SOURCE
#include "shim.h"

#include <dlfcn.h>
#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#define RBD_FILE "librbd.so.1"

typedef void (*nr_callback)(void *completion, void *arg);
typedef int (*nr_extent)(uint64_t offset, size_t length, int exists, void *arg);

// The functions used: X(result, name, parameters). Clusters, pools, images and completions are
// void pointers to the libraries, too.
#define RBD_FUNCTIONS(X) \
	X(int, rbd_create, (void *, const char *, uint64_t, int *)) \
	X(int, rbd_remove, (void *, const char *)) \
	X(int, rbd_open, (void *, const char *, void **, const char *)) \
	X(int, rbd_open_read_only, (void *, const char *, void **, const char *)) \
	X(int, rbd_close, (void *)) \
	X(int, rbd_get_size, (void *, uint64_t *)) \
	X(int, rbd_get_stripe_unit, (void *, uint64_t *)) \
	X(int, rbd_get_features, (void *, uint64_t *)) \
	X(int, rbd_get_id, (void *, char *, size_t)) \
	X(int64_t, rbd_get_data_pool_id, (void *)) \
	X(int, rbd_resize, (void *, uint64_t)) \
	X(int, rbd_diff_iterate2, (void *, const char *, uint64_t, uint64_t, uint8_t, uint8_t, nr_extent, void *)) \
	X(int, rbd_lock_acquire, (void *, int)) \
	X(int, rbd_lock_get_owners, (void *, int *, char **, size_t *)) \
	X(void, rbd_lock_get_owners_cleanup, (char **, size_t)) \
	X(int, rbd_aio_create_completion, (void *, nr_callback, void **)) \
	X(ssize_t, rbd_aio_get_return_value, (void *)) \
	X(void, rbd_aio_release, (void *)) \
	X(int, rbd_aio_read, (void *, uint64_t, size_t, char *, void *)) \
	X(int, rbd_aio_write2, (void *, uint64_t, size_t, const char *, void *, int)) \
	X(int, rbd_aio_flush, (void *, void *)) \
	X(int, rbd_aio_discard, (void *, uint64_t, uint64_t, void *)) \
	X(int, rbd_aio_write_zeroes, (void *, uint64_t, size_t, void *, int, int)) \
	X(ssize_t, rbd_aio_compare_and_write, (void *, uint64_t, size_t, const char *, const char *, void *, uint64_t *, int))

#define FADVISE_FUA 0x80    // LIBRADOS_OP_FLAG_FADVISE_FUA
#define ZERO_THICK 1        // RBD_WRITE_ZEROES_FLAG_THICK_PROVISION
#define LOCK_EXCLUSIVE 0    // RBD_LOCK_MODE_EXCLUSIVE

struct nr_lib {
#define POINTER(result, name, parameters) result (*name) parameters;
	RBD_FUNCTIONS(POINTER)
#undef POINTER
};

static int load(void *library, const char *name, void *to, char *message, size_t size)
{
	void *f = dlsym(library, name);

	if (!f) {
		snprintf(message, size, RBD_FILE " has no %s: it is too old", name);
		return -1;
	}
	memcpy(to, &f, sizeof f);
	return 0;
}

// The library is never unloaded: it has threads of its own.
struct nr_lib *nr_open_lib(char *message, size_t size)
{
	struct nr_lib *l = calloc(1, sizeof *l);
	void *rbd = dlopen(RBD_FILE, RTLD_NOW | RTLD_GLOBAL);

	if (!l || !rbd) {
		const char *why = dlerror();
		snprintf(message, size, "%s", why ? why : "out of memory");
		free(l);
		return NULL;
	}
#define LOAD(result, name, parameters) || load(rbd, #name, &l->name, message, size)
	if (0 RBD_FUNCTIONS(LOAD)) {
		free(l);
		return NULL;
	}
	return l;
}

int nr_create(struct nr_lib *l, void *context, const char *name, uint64_t size)
{
	int order = 0; // as configured

	return l->rbd_create(context, name, size, &order);
}

int nr_remove(struct nr_lib *l, void *context, const char *name) { return l->rbd_remove(context, name); }

int nr_open(struct nr_lib *l, void *context, const char *name, const char *snapshot, int read_only, void **image)
{
	if (!*snapshot)
		snapshot = NULL;
	return (read_only ? l->rbd_open_read_only : l->rbd_open)(context, name, image, snapshot);
}

struct nr_image *nr_image(struct nr_lib *l, void *image)
{
	struct nr_image *i = malloc(sizeof *i);

	if (i)
		*i = (struct nr_image){l, image};
	return i;
}

int nr_close(struct nr_lib *l, void *image) { return l->rbd_close(image); }

int nr_look(struct nr_lib *l, void *image, uint64_t *size, uint64_t *unit, uint64_t *features)
{
	int err = l->rbd_get_size(image, size);

	if (!err)
		err = l->rbd_get_stripe_unit(image, unit);
	return err ? err : l->rbd_get_features(image, features);
}

int nr_id(struct nr_lib *l, void *image, char *id, size_t size) { return l->rbd_get_id(image, id, size); }

int64_t nr_data_pool(struct nr_lib *l, void *image) { return l->rbd_get_data_pool_id(image); }

int nr_resize(struct nr_lib *l, void *image, uint64_t size) { return l->rbd_resize(image, size); }

static int add(uint64_t offset, size_t length, int exists, void *sum)
{
	(void)offset;
	if (exists)
		*(uint64_t *)sum += length;
	return 0;
}

int nr_used(struct nr_lib *l, void *image, uint64_t size, uint64_t *used)
{
	*used = 0;
	return l->rbd_diff_iterate2(image, NULL, 0, size, 0, 1, add, used);
}

int nr_lock(struct nr_lib *l, void *image) { return l->rbd_lock_acquire(image, LOCK_EXCLUSIVE); }

int nr_owner(struct nr_lib *l, void *image, char *owner, size_t size)
{
	char *owners[8];
	size_t n = sizeof owners / sizeof owners[0];
	int mode, err = l->rbd_lock_get_owners(image, &mode, owners, &n);

	if (err)
		return err;
	snprintf(owner, size, "%s", n ? owners[0] : "");
	l->rbd_lock_get_owners_cleanup(owners, n);
	return 0;
}

// ended stores the end of a call in its ring. It must not access the ring after it has decremented running.
static void ended(struct nr_arg *a, int32_t result)
{
	struct nr_ring *r = a->ring;
	uint64_t at = __atomic_fetch_add(&r->tail, 1, __ATOMIC_RELAXED);
	uint64_t one = 1;

	__atomic_store_n(&r->cells[at & r->mask], (uint64_t)(a->id + 1) << 32 | (uint32_t)result, __ATOMIC_SEQ_CST);
	if (__atomic_load_n(&r->armed, __ATOMIC_SEQ_CST) && __atomic_exchange_n(&r->armed, 0, __ATOMIC_SEQ_CST)) {
		ssize_t n = write(r->event, &one, sizeof one);
		(void)n; // cannot be full: it is written once each time that it is armed
	}
	__atomic_fetch_sub(&r->running, 1, __ATOMIC_SEQ_CST);
}

// done is called on a thread of librbd.
static void done(void *completion, void *arg)
{
	struct nr_arg *a = arg;
	ssize_t result = a->lib->rbd_aio_get_return_value(completion);

	a->lib->rbd_aio_release(completion);
	ended(a, (int32_t)result);
}

static int start(struct nr_lib *l, void *image, struct nr_arg *a, const struct nr_call *c, void *completion)
{
	char *buffer = (char *)(uintptr_t)c->buffer;
	int fua = c->flags & NR_FUA ? FADVISE_FUA : 0;

	switch (c->kind) {
	case NR_READ:
		return l->rbd_aio_read(image, c->offset, c->length, buffer, completion);
	case NR_WRITE:
		return l->rbd_aio_write2(image, c->offset, c->length, buffer, completion, fua);
	case NR_FLUSH:
		return l->rbd_aio_flush(image, completion);
	case NR_ZERO:
		return l->rbd_aio_write_zeroes(image, c->offset, c->length, completion, c->flags & NR_KEEP ? ZERO_THICK : 0, fua);
	case NR_DISCARD:
		return l->rbd_aio_discard(image, c->offset, c->length, completion);
	case NR_COMPARE:
		return l->rbd_aio_compare_and_write(image, c->offset, c->length, (const char *)(uintptr_t)c->expected, buffer,
			completion, &a->mismatch, fua);
	}
	return -EINVAL;
}

static void begin(struct nr_ring *r, const struct nr_call *c)
{
	const struct nr_image *image = (const struct nr_image *)(uintptr_t)c->image;
	struct nr_lib *l = image->lib;
	struct nr_arg *a = &((struct nr_arg *)(uintptr_t)r->args)[c->id];
	void *completion;
	int err;

	a->lib = l;
	a->ring = r;
	a->id = c->id;
	err = l->rbd_aio_create_completion(a, done, &completion);
	if (err) {
		ended(a, err);
		return;
	}
	err = start(l, image->handle, a, c, completion);
	if (err < 0) {
		l->rbd_aio_release(completion);
		ended(a, err);
	}
}

// begin_all begins the calls of a ring that is no longer listed. Calls that are put after this function has looked list
// the ring again.
static void begin_all(struct nr_ring *r)
{
	const struct nr_call *calls = (const struct nr_call *)(uintptr_t)r->todo;
	uint64_t begun = __atomic_load_n(&r->begun, __ATOMIC_SEQ_CST);

	while (r->taken != begun) {
		struct nr_call c = calls[r->taken++ & r->mask];
		begin(r, &c);
	}
}

static void wait_for_rings(struct nr_starter *s)
{
	__atomic_store_n(&s->asleep, 1, __ATOMIC_SEQ_CST);
	if (!__atomic_load_n(&s->list, __ATOMIC_SEQ_CST) && !__atomic_load_n(&s->over, __ATOMIC_SEQ_CST))
		syscall(SYS_futex, &s->asleep, FUTEX_WAIT_PRIVATE, 1, NULL, NULL, 0);
	__atomic_store_n(&s->asleep, 0, __ATOMIC_SEQ_CST);
}

static void *starter(void *arg)
{
	struct nr_starter *s = arg;

	for (;;) {
		uint64_t at = __atomic_exchange_n(&s->list, 0, __ATOMIC_SEQ_CST);

		if (!at) {
			if (__atomic_load_n(&s->over, __ATOMIC_SEQ_CST))
				return NULL;
			wait_for_rings(s);
		}
		while (at) {
			struct nr_ring *r = (struct nr_ring *)(uintptr_t)at;

			at = r->next;
			__atomic_store_n(&r->listed, 0, __ATOMIC_SEQ_CST);
			begin_all(r);
			__atomic_fetch_sub(&r->running, 1, __ATOMIC_SEQ_CST);
		}
	}
}

struct nr_starter *nr_starter_open(void)
{
	struct nr_starter *s = calloc(1, sizeof *s);
	pthread_t thread;
	sigset_t all, before;
	int err;

	if (!s)
		return NULL;
	sigfillset(&all); // signals are for Go's threads
	pthread_sigmask(SIG_SETMASK, &all, &before);
	err = pthread_create(&thread, NULL, starter, s);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (err) {
		free(s);
		return NULL;
	}
	pthread_setname_np(thread, "rbd_start");
	s->thread = (uint64_t)thread;
	return s;
}

void nr_starter_close(struct nr_starter *s)
{
	__atomic_store_n(&s->over, 1, __ATOMIC_SEQ_CST);
	__atomic_store_n(&s->asleep, 0, __ATOMIC_SEQ_CST);
	syscall(SYS_futex, &s->asleep, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
	pthread_join((pthread_t)s->thread, NULL);
	free(s);
}
