//go:build rbd && cgo && linux

#include "shim.h"
#include "library.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FILE_NAME "librados.so.2"

static int load(void *library, const char *name, void *to, char *message, size_t size)
{
	void *f = dlsym(library, name);

	if (!f) {
		snprintf(message, size, FILE_NAME " has no %s: it is too old", name);
		return -1;
	}
	memcpy(to, &f, sizeof f);
	return 0;
}

// The library is never unloaded: it has threads of its own.
struct nl_lib *nl_open_lib(char *message, size_t size)
{
	struct nl_lib *l = calloc(1, sizeof *l);
	void *library = dlopen(FILE_NAME, RTLD_NOW | RTLD_GLOBAL);

	if (!l || !library) {
		const char *why = dlerror();
		snprintf(message, size, "%s", why ? why : "out of memory");
		free(l);
		return NULL;
	}
#define LOAD(result, name, parameters) || load(library, #name, &l->name, message, size)
	if (0 RADOS_FUNCTIONS(LOAD)) {
		free(l);
		return NULL;
	}
	return l;
}

int nl_connect(struct nl_lib *l, const char *conf, const char *id, const char *settings, void **cluster)
{
	int err = l->rados_create(cluster, *id ? id : NULL);

	if (err)
		return err;
	err = l->rados_conf_read_file(*cluster, *conf ? conf : NULL);
	if (!err)
		err = l->rados_conf_parse_env(*cluster, NULL);
	while (!err && *settings) {
		const char *value = settings + strlen(settings) + 1;

		l->rados_conf_set(*cluster, settings, value); // a version that does not know a setting ignores it
		settings = value + strlen(value) + 1;
	}
	if (!err)
		err = l->rados_connect(*cluster);
	if (err)
		l->rados_shutdown(*cluster);
	return err;
}

void nl_shutdown(struct nl_lib *l, void *cluster) { l->rados_shutdown(cluster); }

int nl_set(struct nl_lib *l, void *cluster, const char *name, const char *value)
{
	return l->rados_conf_set(cluster, name, value);
}

int nl_fsid(struct nl_lib *l, void *cluster, char *fsid, size_t size)
{
	int n = l->rados_cluster_fsid(cluster, fsid, size);

	return n < 0 ? n : 0;
}

int nl_addresses(struct nl_lib *l, void *cluster, char *addresses, size_t size)
{
	char *s = NULL;
	int err = l->rados_getaddrs(cluster, &s);

	if (!err && (size_t)snprintf(addresses, size, "%s", s) >= size)
		err = -ERANGE;
	free(s);
	return err;
}

int nl_block(struct nl_lib *l, void *cluster, char *address, uint32_t seconds)
{
	return l->rados_blocklist_add(cluster, address, seconds);
}

int nl_await_map(struct nl_lib *l, void *cluster) { return l->rados_wait_for_latest_osdmap(cluster); }

// own copies memory that the library allocated, so that it can be freed with free.
static int own(struct nl_lib *l, char **text, size_t size)
{
	char *copy = malloc(size + 1);

	if (copy && *text)
		memcpy(copy, *text, size);
	l->rados_buffer_free(*text);
	*text = copy;
	return copy ? 0 : -ENOMEM;
}

int nl_command(struct nl_lib *l, void *cluster, const char *command, char **answer, size_t *size, char **said, size_t *said_size)
{
	int err;

	*answer = *said = NULL;
	*size = *said_size = 0;
	err = l->rados_mon_command(cluster, &command, 1, "", 0, answer, size, said, said_size);
	if (own(l, answer, *size) || own(l, said, *said_size)) {
		*size = *said_size = 0;
		return -ENOMEM;
	}
	return err;
}

int nl_pool(struct nl_lib *l, void *cluster, const char *pool, const char *space, struct nl_pool **entered)
{
	struct nl_pool *p = calloc(1, sizeof *p);
	int err = p ? l->rados_ioctx_create(cluster, pool, &p->context) : -ENOMEM;

	if (err) {
		free(p);
		return err;
	}
	p->lib = l;
	l->rados_ioctx_set_namespace(p->context, space);
	*entered = p;
	return 0;
}

void *nl_context(struct nl_pool *p) { return p->context; }

void nl_leave_pool(struct nl_pool *p)
{
	while (__atomic_load_n(&p->notifications, __ATOMIC_SEQ_CST) > 0)
		usleep(1000);
	p->lib->rados_ioctx_destroy(p->context);
	free(p);
}

int nl_exists(struct nl_pool *p, const char *object)
{
	uint64_t size;
	time_t changed;

	return p->lib->rados_stat(p->context, object, &size, &changed);
}
