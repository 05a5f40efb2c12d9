// The functions by which the package uses librados. A cluster is a rados_t. Functions that return an int return 0 or a
// negative errno.

#ifndef NL_SHIM_H
#define NL_SHIM_H

#include <stddef.h>
#include <stdint.h>

struct nl_lib;
struct nl_watch;
struct nl_pool;

// nl_open_lib returns the functions of the library, or NULL and a message.
struct nl_lib *nl_open_lib(char *message, size_t size);

// nl_connect connects a client. The settings are alternating names and values, each terminated by a zero byte. Another
// zero byte terminates the whole.
int nl_connect(struct nl_lib *, const char *conf, const char *id, const char *settings, void **cluster);
void nl_shutdown(struct nl_lib *, void *cluster);
int nl_set(struct nl_lib *, void *cluster, const char *name, const char *value);
int nl_fsid(struct nl_lib *, void *cluster, char *fsid, size_t size);
int nl_addresses(struct nl_lib *, void *cluster, char *addresses, size_t size);
int nl_block(struct nl_lib *, void *cluster, char *address, uint32_t seconds);
int nl_await_map(struct nl_lib *, void *cluster);

// nl_command makes the monitors execute a command in JSON. The caller must free their output and their message, also
// after an error.
int nl_command(struct nl_lib *, void *cluster, const char *command, char **answer, size_t *size, char **said, size_t *said_size);

int nl_pool(struct nl_lib *, void *cluster, const char *pool, const char *space, struct nl_pool **);
void *nl_context(struct nl_pool *); // a rados_ioctx_t
void nl_leave_pool(struct nl_pool *);
int nl_exists(struct nl_pool *, const char *object);
int nl_pool_name(struct nl_lib *, void *cluster, int64_t id, char *name, size_t size);

// nl_visit makes the OSDs search for an object in one of several equal parts of a pool's objects, divided by hash.
int nl_visit(struct nl_pool *, size_t part, size_t parts);

// nl_try removes an object that does not exist, which is a write that changes nothing. After a number of milliseconds it
// withdraws the request and returns -ETIMEDOUT.
int nl_try(struct nl_pool *, const char *object, int64_t milliseconds);

// nl_locker finds the owner of an exclusive lock of an object. size is the size of each of the three buffers for its
// names. It returns 1, or 0 if the lock has no owner.
int nl_locker(struct nl_pool *, const char *object, const char *lock, char *client, char *cookie, char *address, size_t size);
int nl_break_lock(struct nl_pool *, const char *object, const char *lock, const char *client, const char *cookie);

// The kinds of steps of a write.
enum { NL_CREATE, NL_COMPARE, NL_SET, NL_REMOVE };

// A step, and an entry that was read, begins with this. The key and the value follow.
struct nl_step {
	uint32_t kind, key, value; // key and value are lengths
};

// nl_write executes all steps, or none: -ECANCELED if a comparison does not hold.
int nl_write(struct nl_pool *, const char *object, const char *steps, size_t size);

// nl_read reads the keys of some steps, and lists, all at one point in time. A list is up to most entries whose keys
// follow a given key and begin with a prefix: it is requested by a step with most for the kind, these two for the key and
// the value, and a zero byte after each. The caller frees the entries, whose kind is 0, or the number of their list from
// 1. more has a byte for each list.
int nl_read(struct nl_pool *, const char *object, const char *steps, size_t size,
	const char *lists, size_t lists_size, char **entries, size_t *length, unsigned char *more);

// nl_watch watches an object. Each message, and the loss of the watch, is signaled by the eventfd.
int nl_watch(struct nl_pool *, void *cluster, const char *object, int event, struct nl_watch **);
// nl_watch_next returns the next message, which the caller frees, or NULL.
char *nl_watch_next(struct nl_watch *, size_t *size);
int nl_watch_error(struct nl_watch *);
void nl_unwatch(struct nl_watch *);
// nl_notify sends a message to the watchers without waiting for them.
int nl_notify(struct nl_pool *, const char *object, const char *message, size_t size);

#endif
