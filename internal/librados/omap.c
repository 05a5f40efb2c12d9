//go:build rbd && cgo && linux

// Reading and writing the keys of an object.

#include "shim.h"
#include "library.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define CREATE_EXCLUSIVE 1 // LIBRADOS_CREATE_EXCLUSIVE
#define EQUAL 1            // LIBRADOS_CMPXATTR_OP_EQ

static void add(struct nl_lib *l, void *op, const struct nl_step *s, const char *key)
{
	const char *value = key + s->key;
	size_t key_size = s->key, value_size = s->value;

	switch (s->kind) {
	case NL_CREATE:
		l->rados_write_op_create(op, CREATE_EXCLUSIVE, NULL);
		break;
	case NL_COMPARE:
		l->rados_write_op_omap_cmp2(op, key, EQUAL, value, key_size, value_size, NULL);
		break;
	case NL_SET:
		l->rados_write_op_omap_set2(op, &key, &value, &key_size, &value_size, 1);
		break;
	case NL_REMOVE:
		l->rados_write_op_omap_rm_keys2(op, &key, &key_size, 1);
		break;
	}
}

int nl_write(struct nl_pool *p, const char *object, const char *steps, size_t size)
{
	const char *end = steps + size;
	struct nl_lib *l = p->lib;
	void *op = l->rados_create_write_op();
	int err;

	while (steps < end) {
		struct nl_step s;

		memcpy(&s, steps, sizeof s);
		add(l, op, &s, steps + sizeof s);
		steps += sizeof s + s.key + s.value;
	}
	err = l->rados_write_op_operate2(op, p->context, object, NULL, 0);
	l->rados_release_write_op(op);
	return err;
}

// A growing text.
struct text {
	char *at;
	size_t size, room;
	int err;
};

static void append(struct text *t, const void *from, size_t n)
{
	if (t->size + n > t->room) {
		size_t room = 2 * (t->size + n);
		char *at = realloc(t->at, room);

		if (!at) {
			t->err = -ENOMEM;
			return;
		}
		t->at = at;
		t->room = room;
	}
	memcpy(t->at + t->size, from, n);
	t->size += n;
}

// collect appends the entries of an iterator and frees it.
static void collect(struct nl_lib *l, struct text *t, void *iterator, uint32_t kind)
{
	if (!iterator)
		return;
	while (!t->err) {
		char *key = NULL, *value = NULL;
		size_t key_size = 0, value_size = 0;
		struct nl_step s;

		t->err = l->rados_omap_get_next2(iterator, &key, &value, &key_size, &value_size);
		if (t->err || !key)
			break;
		s.kind = kind;
		s.key = (uint32_t)key_size;
		s.value = (uint32_t)value_size;
		append(t, &s, sizeof s);
		append(t, key, key_size);
		append(t, value, value_size);
	}
	l->rados_omap_get_end(iterator);
}

static size_t count(const char *steps, size_t size)
{
	const char *end = steps + size;
	size_t n = 0;

	for (; steps < end; n++) {
		struct nl_step s;

		memcpy(&s, steps, sizeof s);
		steps += sizeof s + s.key + s.value;
	}
	return n;
}

// ask adds to an operation reads of the keys that the steps name.
static int ask(struct nl_lib *l, void *op, const char *steps, size_t size, void **iterator, int *err)
{
	const char *end = steps + size, *at;
	size_t n = count(steps, size), i = 0, *sizes;
	const char **keys;

	keys = calloc(n + 1, sizeof *keys);
	sizes = calloc(n + 1, sizeof *sizes);
	for (at = steps; keys && sizes && at < end; i++) {
		struct nl_step s;

		memcpy(&s, at, sizeof s);
		keys[i] = at + sizeof s;
		sizes[i] = s.key;
		at += sizeof s + s.key + s.value;
	}
	if (keys && sizes && n > 0)
		l->rados_read_op_omap_get_vals_by_keys2(op, keys, n, sizes, iterator, err);
	n = keys && sizes;
	free(keys);
	free(sizes);
	return n ? 0 : -ENOMEM;
}

// A list that an operation reads.
struct list {
	void *entries;
	unsigned char more;
	int err;
};

// request adds to an operation reads of the lists.
static void request(struct nl_lib *l, void *op, const char *lists, size_t size, struct list *to)
{
	const char *end = lists + size;

	for (; lists < end; to++) {
		struct nl_step s;

		memcpy(&s, lists, sizeof s);
		lists += sizeof s;
		l->rados_read_op_omap_get_vals2(op, lists, lists + s.key, s.kind, &to->entries, &to->more, &to->err);
		lists += s.key + s.value;
	}
}

int nl_read(struct nl_pool *p, const char *object, const char *steps, size_t size,
	const char *lists, size_t lists_size, char **entries, size_t *length, unsigned char *more)
{
	struct nl_lib *l = p->lib;
	void *op = l->rados_create_read_op(), *named = NULL;
	size_t n = count(lists, lists_size);
	struct list *all = calloc(n + 1, sizeof *all);
	int err, err1 = 0;
	struct text t = {0};

	err = all ? ask(l, op, steps, size, &named, &err1) : -ENOMEM;
	if (!err) {
		request(l, op, lists, lists_size, all);
		err = l->rados_read_op_operate(op, p->context, object, 0);
	}
	if (!err)
		err = err1;
	for (size_t i = 0; all && i < n; i++) {
		if (!err)
			err = all[i].err;
		more[i] = all[i].more;
	}
	t.err = err;
	collect(l, &t, named, 0);
	for (size_t i = 0; all && i < n; i++)
		collect(l, &t, all[i].entries, (uint32_t)i + 1);
	l->rados_release_read_op(op);
	free(all);
	*entries = t.at;
	*length = t.size;
	return t.err;
}
