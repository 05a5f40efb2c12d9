//go:build verbs && cgo && linux

// Queries of device attributes, which connections do not use.

#include "shimdevices.h"
#include "shimlib.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

struct functions {
	struct ibv_device **(*get_device_list)(int *);
	void (*free_device_list)(struct ibv_device **);
	const char *(*get_device_name)(struct ibv_device *);
	struct ibv_context *(*open_device)(struct ibv_device *);
	int (*close_device)(struct ibv_context *);
	int (*query_device)(struct ibv_context *, struct ibv_device_attr *);
	int (*query_port)(struct ibv_context *, uint8_t, struct ibv_port_attr *);
};

static int find(void *library, const char *name, void *to)
{
	void *f = dlsym(library, name);

	memcpy(to, &f, sizeof f);
	return f ? 0 : -ENOSYS;
}

static int find_all(void *library, struct functions *f)
{
	return find(library, "ibv_get_device_list", &f->get_device_list) || find(library, "ibv_free_device_list", &f->free_device_list) ||
		find(library, "ibv_get_device_name", &f->get_device_name) || find(library, "ibv_open_device", &f->open_device) ||
		find(library, "ibv_close_device", &f->close_device) || find(library, "ibv_query_device", &f->query_device) ||
		find(library, "ibv_query_port", &f->query_port) ? -ENOSYS : 0;
}

static void describe(const struct functions *f, struct ibv_device *device, struct nv_device_info *out)
{
	struct ibv_device_attr a = {};
	struct ibv_context *context;
	uint32_t i;

	memset(out, 0, sizeof *out);
	snprintf(out->name, sizeof out->name, "%s", f->get_device_name(device));
	errno = 0;
	context = f->open_device(device);
	if (!context) {
		out->error = failed();
		return;
	}
	out->error = outcome(f->query_device(context, &a));
	out->max_qp = a.max_qp;
	out->max_qp_wr = a.max_qp_wr;
	out->max_cqe = a.max_cqe;
	out->max_mr = a.max_mr;
	out->max_mr_size = a.max_mr_size;
	out->max_srq = a.max_srq;
	out->max_reads_in = a.max_qp_rd_atom;
	out->max_reads_out = a.max_qp_init_rd_atom;
	out->max_mw = a.max_mw;
	out->ports = a.phys_port_cnt;
	for (i = 0; i < out->ports && i < NV_MAX_PORTS; i++) {
		struct ibv_port_attr port = {};
		if (!f->query_port(context, (uint8_t)(i + 1), &port) && port.active_mtu >= 1 && port.active_mtu <= 5)
			out->mtu[i] = 128u << port.active_mtu;
	}
	f->close_device(context);
}

int nv_list_devices(struct nv_device_info *out, int max)
{
	void *library = dlopen("libibverbs.so.1", RTLD_NOW | RTLD_GLOBAL);
	struct functions f = {};
	struct ibv_device **list;
	int n = 0, i;

	if (!library || find_all(library, &f))
		return -ENOSYS;
	errno = 0;
	list = f.get_device_list(&n);
	if (!list)
		return failed();
	if (n > max)
		n = max;
	for (i = 0; i < n; i++)
		describe(&f, list[i], &out[i]);
	f.free_device_list(list);
	return n;
}
