// The part of librados that is used; its headers are not needed.

#ifndef NL_LIBRARY_H
#define NL_LIBRARY_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

typedef void (*nl_watched)(void *arg, uint64_t notification, uint64_t watch, uint64_t notifier, void *data, size_t size);
typedef void (*nl_lost)(void *arg, uint64_t watch, int error);
typedef void (*nl_completed)(void *completion, void *arg);

// An object of a listing (rados_object_list_item).
struct nl_listed {
	size_t name_length;
	char *name;
	size_t space_length;
	char *space;
	size_t locator_length;
	char *locator;
};

// The functions used: X(result, name, parameters).
#define RADOS_FUNCTIONS(X) \
	X(int, rados_create, (void **, const char *)) \
	X(int, rados_conf_read_file, (void *, const char *)) \
	X(int, rados_conf_parse_env, (void *, const char *)) \
	X(int, rados_conf_set, (void *, const char *, const char *)) \
	X(int, rados_connect, (void *)) \
	X(void, rados_shutdown, (void *)) \
	X(int, rados_cluster_fsid, (void *, char *, size_t)) \
	X(int, rados_getaddrs, (void *, char **)) \
	X(int, rados_blocklist_add, (void *, char *, uint32_t)) \
	X(int, rados_wait_for_latest_osdmap, (void *)) \
	X(int, rados_mon_command, (void *, const char **, size_t, const char *, size_t, char **, size_t *, char **, size_t *)) \
	X(void, rados_buffer_free, (char *)) \
	X(int, rados_ioctx_create, (void *, const char *, void **)) \
	X(void, rados_ioctx_destroy, (void *)) \
	X(void, rados_ioctx_set_namespace, (void *, const char *)) \
	X(int, rados_pool_reverse_lookup, (void *, int64_t, char *, size_t)) \
	X(void *, rados_object_list_begin, (void *)) \
	X(void *, rados_object_list_end, (void *)) \
	X(void, rados_object_list_cursor_free, (void *, void *)) \
	X(void, rados_object_list_slice, (void *, void *, void *, size_t, size_t, void **, void **)) \
	X(int, rados_object_list, (void *, void *, void *, size_t, const char *, size_t, struct nl_listed *, void **)) \
	X(void, rados_object_list_free, (size_t, struct nl_listed *)) \
	X(int, rados_stat, (void *, const char *, uint64_t *, time_t *)) \
	X(ssize_t, rados_list_lockers, (void *, const char *, const char *, int *, char *, size_t *, char *, size_t *, char *, size_t *, char *, size_t *)) \
	X(int, rados_break_lock, (void *, const char *, const char *, const char *, const char *)) \
	X(void *, rados_create_write_op, (void)) \
	X(void, rados_release_write_op, (void *)) \
	X(void, rados_write_op_create, (void *, int, const char *)) \
	X(void, rados_write_op_omap_cmp2, (void *, const char *, uint8_t, const char *, size_t, size_t, int *)) \
	X(void, rados_write_op_omap_set2, (void *, char const *const *, char const *const *, const size_t *, const size_t *, size_t)) \
	X(void, rados_write_op_omap_rm_keys2, (void *, char const *const *, const size_t *, size_t)) \
	X(int, rados_write_op_operate2, (void *, void *, const char *, struct timespec *, int)) \
	X(void *, rados_create_read_op, (void)) \
	X(void, rados_release_read_op, (void *)) \
	X(void, rados_read_op_omap_get_vals2, (void *, const char *, const char *, uint64_t, void **, unsigned char *, int *)) \
	X(void, rados_read_op_omap_get_vals_by_keys2, (void *, char const *const *, size_t, const size_t *, void **, int *)) \
	X(int, rados_read_op_operate, (void *, void *, const char *, int)) \
	X(int, rados_omap_get_next2, (void *, char **, char **, size_t *, size_t *)) \
	X(void, rados_omap_get_end, (void *)) \
	X(int, rados_watch2, (void *, const char *, uint64_t *, nl_watched, nl_lost, void *)) \
	X(int, rados_unwatch2, (void *, uint64_t)) \
	X(int, rados_watch_flush, (void *)) \
	X(int, rados_notify_ack, (void *, const char *, uint64_t, uint64_t, const char *, int)) \
	X(int, rados_aio_create_completion2, (void *, nl_completed, void **)) \
	X(void, rados_aio_release, (void *)) \
	X(int, rados_aio_get_return_value, (void *)) \
	X(int, rados_aio_remove, (void *, const char *, void *)) \
	X(int, rados_aio_cancel, (void *, void *)) \
	X(int, rados_aio_notify, (void *, const char *, void *, const char *, int, uint64_t, char **, size_t *))

struct nl_lib {
#define POINTER(result, name, parameters) result (*name) parameters;
	RADOS_FUNCTIONS(POINTER)
#undef POINTER
};

struct nl_pool {
	struct nl_lib *lib;
	void *context;
	int notifications; // in progress: the library uses the context for them without counting that
};

#endif
