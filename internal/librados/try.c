//go:build rbd && cgo && linux

// A write that is withdrawn if it is not executed in time. The library keeps it while the pool is full or writes are
// paused, and sends it later, however long that takes.

#include "shim.h"
#include "library.h"

#include <errno.h>
#include <pthread.h>
#include <time.h>

struct attempt {
	struct nl_lib *lib;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	int ended, result;
};

// ended is called on a thread of librados, also if the request was withdrawn.
static void ended(void *completion, void *arg)
{
	struct attempt *a = arg;

	pthread_mutex_lock(&a->lock);
	a->result = a->lib->rados_aio_get_return_value(completion);
	a->ended = 1;
	pthread_cond_signal(&a->changed);
	pthread_mutex_unlock(&a->lock);
}

static int await(struct attempt *a, struct nl_pool *p, void *completion, const struct timespec *end)
{
	int late = 0, withdrawn = 0;

	pthread_mutex_lock(&a->lock);
	while (!a->ended) {
		if (withdrawn)
			pthread_cond_wait(&a->changed, &a->lock);
		else
			late = pthread_cond_timedwait(&a->changed, &a->lock, end) == ETIMEDOUT;
		if (late && !withdrawn && !a->ended) {
			withdrawn = 1;
			pthread_mutex_unlock(&a->lock); // the library may call ended meanwhile
			p->lib->rados_aio_cancel(p->context, completion);
			pthread_mutex_lock(&a->lock);
		}
	}
	pthread_mutex_unlock(&a->lock);
	return a->result == -ECANCELED && withdrawn ? -ETIMEDOUT : a->result;
}

int nl_try(struct nl_pool *p, const char *object, int64_t milliseconds)
{
	struct attempt a = {.lib = p->lib};
	pthread_condattr_t clock;
	struct timespec end;
	void *completion;
	int err;

	clock_gettime(CLOCK_MONOTONIC, &end);
	milliseconds += end.tv_nsec / 1000000;
	end.tv_sec += milliseconds / 1000;
	end.tv_nsec = milliseconds % 1000 * 1000000;
	pthread_mutex_init(&a.lock, NULL);
	pthread_condattr_init(&clock);
	pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
	pthread_cond_init(&a.changed, &clock);
	err = p->lib->rados_aio_create_completion2(&a, ended, &completion);
	if (!err) {
		err = p->lib->rados_aio_remove(p->context, object, completion);
		if (!err)
			err = await(&a, p, completion, &end);
		p->lib->rados_aio_release(completion);
	}
	pthread_cond_destroy(&a.changed);
	pthread_condattr_destroy(&clock);
	pthread_mutex_destroy(&a.lock);
	return err == -ENOENT ? 0 : err;
}
