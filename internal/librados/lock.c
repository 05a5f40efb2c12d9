//go:build rbd && cgo && linux

#include "shim.h"
#include "library.h"

#include <errno.h>

int nl_locker(struct nl_pool *p, const char *object, const char *lock, char *client, char *cookie, char *address, size_t size)
{
	char tag[256];
	size_t tag_size = sizeof tag, client_size = size, cookie_size = size, address_size = size;
	int exclusive;
	ssize_t n = p->lib->rados_list_lockers(p->context, object, lock, &exclusive, tag, &tag_size,
		client, &client_size, cookie, &cookie_size, address, &address_size);

	if (n == -ENOENT)
		return 0;
	return n > 0 ? 1 : n;
}

int nl_break_lock(struct nl_pool *p, const char *object, const char *lock, const char *client, const char *cookie)
{
	return p->lib->rados_break_lock(p->context, object, lock, client, cookie);
}
