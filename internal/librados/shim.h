// The functions by which the package uses librados. A cluster is a rados_t. What returns an int
// returns 0, or a negative errno.

#ifndef NL_SHIM_H
#define NL_SHIM_H

#include <stddef.h>
#include <stdint.h>

struct nl_lib;
struct nl_watch;
struct nl_pool;

// nl_open_lib returns the functions of the library, or NULL with a message.
struct nl_lib *nl_open_lib(char *message, size_t size);

// nl_connect connects a client. The settings are names and values in turn, each of which ends
// with a zero byte, as the whole does.
int nl_connect(struct nl_lib *, const char *conf, const char *id, const char *settings, void **cluster);
void nl_shutdown(struct nl_lib *, void *cluster);
int nl_set(struct nl_lib *, void *cluster, const char *name, const char *value);
int nl_fsid(struct nl_lib *, void *cluster, char *fsid, size_t size);
int nl_addresses(struct nl_lib *, void *cluster, char *addresses, size_t size);
int nl_block(struct nl_lib *, void *cluster, char *address, uint32_t seconds);
int nl_await_map(struct nl_lib *, void *cluster);

// nl_command has the monitors carry out a command, in JSON. What they answer, and what they
// say, are the caller's to free, also after an error.
int nl_command(struct nl_lib *, void *cluster, const char *command, char **answer, size_t *size, char **said, size_t *said_size);

int nl_pool(struct nl_lib *, void *cluster, const char *pool, const char *space, struct nl_pool **);
void *nl_context(struct nl_pool *); // a rados_ioctx_t
void nl_leave_pool(struct nl_pool *);
int nl_exists(struct nl_pool *, const char *object);
int nl_pool_name(struct nl_lib *, void *cluster, int64_t id, char *name, size_t size);

// nl_visit has the OSDs look for an object in one of as many equal parts of a pool's objects, by
// their hash, as there are.
int nl_visit(struct nl_pool *, size_t part, size_t parts);

// nl_locker finds who has an exclusive lock of an object, each of whose three names has so many bytes at
// most. It returns 1, or 0 if nobody has it.
int nl_locker(struct nl_pool *, const char *object, const char *lock, char *client, char *cookie, char *address, size_t size);
int nl_break_lock(struct nl_pool *, const char *object, const char *lock, const char *client, const char *cookie);

// What a step of a write does.
enum { NL_CREATE, NL_COMPARE, NL_SET, NL_REMOVE };

// A step, and an entry of what is read, begin with this, which the key and the value follow.
struct nl_step {
	uint32_t kind, key, value; // the latter two are lengths
};

// nl_write carries out all steps, or none: -ECANCELED when a comparison does not hold.
int nl_write(struct nl_pool *, const char *object, const char *steps, size_t size);

// nl_read reads the keys of some steps, and then up to most entries after a key whose own begin
// with a prefix, at one moment. The caller frees the entries.
int nl_read(struct nl_pool *, const char *object, const char *steps, size_t size,
	const char *after, const char *prefix, uint64_t most, char **entries, size_t *length, int *more);

// nl_watch watches an object. Each message, and the loss of the watch, is written to the eventfd.
int nl_watch(struct nl_pool *, void *cluster, const char *object, int event, struct nl_watch **);
// nl_watch_next returns the next message, which the caller frees, or NULL.
char *nl_watch_next(struct nl_watch *, size_t *size);
int nl_watch_error(struct nl_watch *);
void nl_unwatch(struct nl_watch *);
// nl_notify sends a message to those who watch, and waits for none of them.
int nl_notify(struct nl_pool *, const char *object, const char *message, size_t size);

#endif
