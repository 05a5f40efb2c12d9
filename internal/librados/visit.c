//go:build rbd && cgo && linux

#include "shim.h"
#include "library.h"

#include <errno.h>

int nl_pool_name(struct nl_lib *l, void *cluster, int64_t id, char *name, size_t size)
{
	int n = l->rados_pool_reverse_lookup(cluster, id, name, size);

	return n < 0 ? n : 0;
}

int nl_visit(struct nl_pool *p, size_t part, size_t parts)
{
	// The library writes to cursors that exist.
	enum { BEGIN, END, FROM, TO, NEXT, CURSORS };
	struct nl_lib *l = p->lib;
	struct nl_listed found;
	void *at[CURSORS] = {0};
	int err = 0;

	for (int i = 0; i < CURSORS && !err; i++) {
		at[i] = (i == END ? l->rados_object_list_end : l->rados_object_list_begin)(p->context);
		if (!at[i])
			err = -ENOENT;
	}
	if (!err) {
		l->rados_object_list_slice(p->context, at[BEGIN], at[END], part, parts, &at[FROM], &at[TO]);
		err = l->rados_object_list(p->context, at[FROM], at[TO], 1, NULL, 0, &found, &at[NEXT]);
		if (err >= 0)
			l->rados_object_list_free(1, &found);
	}
	for (int i = 0; i < CURSORS; i++)
		if (at[i])
			l->rados_object_list_cursor_free(p->context, at[i]);
	return err < 0 ? err : 0;
}
