//go:build rbd && cgo && linux

// Messages between the clients of an object.

#include "shim.h"
#include "library.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NOTIFY_MS 2000 // how long the cluster waits for watchers that do not acknowledge

struct message {
	struct message *next;
	size_t size;
	char data[];
};

struct nl_watch {
	struct nl_pool *pool;
	void *cluster;
	char *object;
	uint64_t cookie;
	int event;
	pthread_mutex_t lock; // guards the fields below
	struct message *first, **last;
	int error;
};

static void wake(struct nl_watch *w)
{
	uint64_t one = 1;
	ssize_t n = write(w->event, &one, sizeof one);
	(void)n; // if it is full it is readable anyway
}

static void fail(struct nl_watch *w, int error)
{
	pthread_mutex_lock(&w->lock);
	w->error = error;
	pthread_mutex_unlock(&w->lock);
	wake(w);
}

// watched is called on a thread of librados.
static void watched(void *arg, uint64_t notification, uint64_t cookie, uint64_t notifier, void *data, size_t size)
{
	struct nl_watch *w = arg;
	struct message *m = malloc(sizeof *m + size);

	(void)notifier;
	w->pool->lib->rados_notify_ack(w->pool->context, w->object, notification, cookie, NULL, 0);
	if (!m) {
		fail(w, -ENOMEM);
		return;
	}
	m->next = NULL;
	m->size = size;
	if (size > 0)
		memcpy(m->data, data, size);
	pthread_mutex_lock(&w->lock);
	*w->last = m;
	w->last = &m->next;
	pthread_mutex_unlock(&w->lock);
	wake(w);
}

// lost is called on a thread of librados, too.
static void lost(void *arg, uint64_t cookie, int error)
{
	(void)cookie;
	fail(arg, error);
}

static void destroy(struct nl_watch *w)
{
	while (w->first) {
		struct message *m = w->first;

		w->first = m->next;
		free(m);
	}
	pthread_mutex_destroy(&w->lock);
	close(w->event);
	free(w->object);
	free(w);
}

int nl_watch(struct nl_pool *p, void *cluster, const char *object, int event, struct nl_watch **watch)
{
	struct nl_watch *w = calloc(1, sizeof *w);
	int err;

	if (!w)
		return -ENOMEM;
	w->pool = p;
	w->cluster = cluster;
	w->object = strdup(object);
	w->event = dup(event);
	w->last = &w->first;
	pthread_mutex_init(&w->lock, NULL);
	err = !w->object ? -ENOMEM : w->event < 0 ? -errno : p->lib->rados_watch2(p->context, object, &w->cookie, watched, lost, w);
	if (err)
		destroy(w);
	else
		*watch = w;
	return err;
}

char *nl_watch_next(struct nl_watch *w, size_t *size)
{
	struct message *m;

	pthread_mutex_lock(&w->lock);
	m = w->first;
	if (m && !(w->first = m->next))
		w->last = &w->first;
	pthread_mutex_unlock(&w->lock);
	if (!m)
		return NULL;
	*size = m->size;
	memmove(m, m->data, m->size);
	return (char *)m;
}

int nl_watch_error(struct nl_watch *w)
{
	int error;

	pthread_mutex_lock(&w->lock);
	error = w->error;
	pthread_mutex_unlock(&w->lock);
	return error;
}

void nl_unwatch(struct nl_watch *w)
{
	struct nl_lib *l = w->pool->lib;

	l->rados_unwatch2(w->pool->context, w->cookie);
	l->rados_watch_flush(w->cluster); // no callback is called after this
	destroy(w);
}

// notified is called on a thread of librados.
static void notified(void *completion, void *arg)
{
	struct nl_pool *p = arg;

	p->lib->rados_aio_release(completion);
	__atomic_fetch_sub(&p->notifications, 1, __ATOMIC_SEQ_CST);
}

int nl_notify(struct nl_pool *p, const char *object, const char *message, size_t size)
{
	void *completion;
	int err = p->lib->rados_aio_create_completion2(p, notified, &completion);

	if (err)
		return err;
	__atomic_fetch_add(&p->notifications, 1, __ATOMIC_SEQ_CST);
	err = p->lib->rados_aio_notify(p->context, object, completion, message, (int)size, NOTIFY_MS, NULL, NULL);
	if (err)
		notified(completion, p);
	return err;
}
