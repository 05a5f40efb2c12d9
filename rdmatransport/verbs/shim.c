//go:build verbs && cgo && linux

// The libraries, devices and what belongs to them.

#define _GNU_SOURCE // dup3

#include "shimlib.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <rdma/ib_user_verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int load(void *library, const char *name, void *to, const char *file, char *message, size_t size)
{
	void *f = dlsym(library, name);

	if (!f) {
		snprintf(message, size, "%s has no %s", file, name);
		return -1;
	}
	memcpy(to, &f, sizeof f);
	return 0;
}

#define VERBS_FILE "libibverbs.so.1"
#define CM_FILE "librdmacm.so.1"

// The libraries stay loaded: they have their own threads and fork handlers. The variable makes them free objects of a
// device that the kernel has freed already.
struct nv_lib *nv_open_lib(char *message, size_t size)
{
	struct nv_lib *l = calloc(1, sizeof *l);
	void *verbs, *cm;

	setenv("RDMAV_ALLOW_DISASSOC_DESTROY", "1", 0);
	verbs = dlopen(VERBS_FILE, RTLD_NOW | RTLD_GLOBAL);
	cm = verbs ? dlopen(CM_FILE, RTLD_NOW | RTLD_GLOBAL) : NULL;
	if (!l || !verbs || !cm) {
		const char *why = dlerror();
		snprintf(message, size, "%s", why ? why : "out of memory");
		free(l);
		return NULL;
	}
#define LOAD_VERBS(result, name, parameters) || load(verbs, #name, &l->name, VERBS_FILE, message, size)
#define LOAD_CM(result, name, parameters) || load(cm, #name, &l->name, CM_FILE, message, size)
	if (0 VERBS_FUNCTIONS(LOAD_VERBS) CM_FUNCTIONS(LOAD_CM) ||
	    load(verbs, "ibv_query_port", &l->query_port, VERBS_FILE, message, size) ||
	    load(verbs, "ibv_reg_mr", &l->reg_mr, VERBS_FILE, message, size)) {
		free(l);
		return NULL;
	}
	void *dmabuf = dlsym(verbs, "ibv_reg_dmabuf_mr");
	memcpy(&l->reg_dmabuf_mr, &dmabuf, sizeof dmabuf);
	return l;
}

void nv_close_lib(struct nv_lib *l) { free(l); }

static int nonblocking(int fd)
{
	int flags = fcntl(fd, F_GETFL);

	return flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0 ? failed() : 0;
}

int nv_create_channel(struct nv_lib *l, struct rdma_event_channel **channel, int *fd)
{
	int err;

	errno = 0;
	*channel = l->rdma_create_event_channel();
	if (!*channel)
		return failed();
	*fd = (*channel)->fd;
	err = nonblocking(*fd);
	if (err)
		l->rdma_destroy_event_channel(*channel);
	return err;
}

void nv_destroy_channel(struct nv_lib *l, struct rdma_event_channel *channel) { l->rdma_destroy_event_channel(channel); }

int nv_id_device(struct nv_lib *l, struct rdma_cm_id *id, char *name, uint8_t *port)
{
	if (!id->verbs)
		return -ENODEV;
	snprintf(name, 64, "%s", l->ibv_get_device_name(id->verbs->device));
	*port = id->port_num;
	return 0;
}

// probe_inline finds the maximum inline data of a queue pair, which no attribute tells.
static uint32_t probe_inline(struct nv_lib *l, struct ibv_context *context)
{
	struct ibv_pd *pd = l->ibv_alloc_pd(context);
	struct ibv_cq *cq = pd ? l->ibv_create_cq(context, 16, NULL, NULL, 0) : NULL;
	uint32_t found = 0, n;

	for (n = 256; cq && n >= 64 && !found; n /= 2) {
		struct ibv_qp_init_attr init = {
			.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC,
			.cap = { .max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 2, .max_recv_sge = 2, .max_inline_data = n },
		};
		struct ibv_qp *qp = l->ibv_create_qp(pd, &init);
		if (qp) {
			found = init.cap.max_inline_data < n ? init.cap.max_inline_data : n;
			l->ibv_destroy_qp(qp);
		}
	}
	if (cq)
		l->ibv_destroy_cq(cq);
	if (pd)
		l->ibv_dealloc_pd(pd);
	return found;
}

// rdma_rxe has this vendor ID. It writes completions for user space itself, with the kernel's flags
// (IB_WC_WITH_INVALIDATE is 4), and its library does not convert them.
#define RXE_VENDOR 0xffffff

static int query(struct nv_lib *l, struct ibv_context *context, struct nv_attrs *a)
{
	struct ibv_device_attr dev = {};
	struct ibv_port_attr port = {};
	int err = outcome(l->ibv_query_device(context, &dev));

	if (!err)
		err = outcome(l->query_port(context, a->port, &port));
	if (err)
		return err;
	snprintf(a->name, sizeof a->name, "%s", l->ibv_get_device_name(context->device));
	snprintf(a->path, sizeof a->path, "%s", context->device->dev_path);
	a->max_message = port.max_msg_sz;
	a->max_qp_wr = dev.max_qp_wr;
	a->max_sge = dev.max_sge;
	a->max_read_sge = dev.max_sge_rd > 0 && dev.max_sge_rd < dev.max_sge ? dev.max_sge_rd : dev.max_sge;
	a->max_cqe = dev.max_cqe;
	a->max_srq_wr = dev.max_srq > 0 && dev.max_srq_wr > 0 ? dev.max_srq_wr : 0;
	a->max_srq_sge = dev.max_srq_sge > 0 ? dev.max_srq_sge : 0;
	a->max_reads_in = dev.max_qp_rd_atom;
	a->max_reads_out = dev.max_qp_init_rd_atom;
	a->comp_vectors = context->num_comp_vectors > 0 ? context->num_comp_vectors : 1;
	a->iwarp = context->device->transport_type == IBV_TRANSPORT_IWARP;
	a->roce = !a->iwarp && port.link_layer == IBV_LINK_LAYER_ETHERNET;
	a->windows = (dev.device_cap_flags & IBV_DEVICE_MEM_WINDOW_TYPE_2B) && dev.max_mw > 0;
	a->rxe = dev.vendor_id == RXE_VENDOR;
	a->atomics = dev.atomic_cap != IBV_ATOMIC_NONE;
	a->max_inline = probe_inline(l, context);
	return 0;
}

int nv_open_device(struct nv_lib *l, struct rdma_cm_id *bound, struct ibv_context **context, int *async_fd, struct nv_attrs *a)
{
	int err;

	if (!bound->verbs)
		return -ENODEV;
	errno = 0;
	*context = l->ibv_open_device(bound->verbs->device);
	if (!*context)
		return failed();
	*async_fd = (*context)->async_fd;
	a->port = bound->port_num;
	err = nonblocking(*async_fd);
	if (!err)
		err = query(l, *context, a);
	if (err)
		l->ibv_close_device(*context);
	return err;
}

int nv_close_device(struct nv_lib *l, struct ibv_context *context) { return outcome(l->ibv_close_device(context)); }

// librdmacm opens each device to which an identifier has been bound once. It closes the device only when it finds
// other devices and not this one, so never if it was the only one. A driver that cannot take its device from its
// users (rdma_rxe) waits for that. Later operations of librdmacm on the files fail or close them.
int nv_forsake_device(struct rdma_cm_id *bound)
{
	int null, err = 0;

	if (!bound->verbs)
		return 0;
	null = open("/dev/null", O_RDWR | O_CLOEXEC);
	if (null < 0)
		return failed();
	if (dup3(null, bound->verbs->cmd_fd, O_CLOEXEC) < 0 || dup3(null, bound->verbs->async_fd, O_CLOEXEC) < 0)
		err = failed();
	close(null);
	return err;
}

int nv_get_async(struct nv_lib *l, struct ibv_context *context, struct nv_async *a)
{
	struct ibv_async_event e;

	memset(a, 0, sizeof *a);
	if (l->ibv_get_async_event(context, &e))
		return errno == EAGAIN ? 0 : failed();
	a->type = e.event_type;
	switch (e.event_type) {
	case IBV_EVENT_COMM_EST:
		a->established = 1;
		a->qp_num = e.element.qp->qp_num;
		break;
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
		a->qp_fatal = 1;
		a->qp_num = e.element.qp->qp_num;
		break;
	case IBV_EVENT_CQ_ERR:
		a->cq_fatal = 1;
		break;
	case IBV_EVENT_DEVICE_FATAL:
		a->fatal = 1;
		break;
	case IBV_EVENT_PORT_ERR:
		a->port_down = 1;
		break;
	default:
		break;
	}
	l->ibv_ack_async_event(&e);
	return 1;
}

int nv_alloc_pd(struct nv_lib *l, struct ibv_context *context, struct ibv_pd **pd)
{
	errno = 0;
	*pd = l->ibv_alloc_pd(context);
	return *pd ? 0 : failed();
}

int nv_dealloc_pd(struct nv_lib *l, struct ibv_pd *pd) { return outcome(l->ibv_dealloc_pd(pd)); }

static int registered(struct ibv_mr *mr, uint32_t *lkey, uint32_t *rkey)
{
	if (!mr)
		return failed();
	*lkey = mr->lkey;
	*rkey = mr->rkey;
	return 0;
}

int nv_reg_mr(struct nv_lib *l, struct ibv_pd *pd, uintptr_t addr, size_t length, uint32_t access,
	struct ibv_mr **mr, uint32_t *lkey, uint32_t *rkey)
{
	errno = 0;
	*mr = l->reg_mr(pd, (void *)addr, length, access_flags(access));
	return registered(*mr, lkey, rkey);
}

int nv_reg_dmabuf_mr(struct nv_lib *l, struct ibv_pd *pd, int fd, uint64_t offset, size_t length, uint64_t iova, uint32_t access,
	struct ibv_mr **mr, uint32_t *lkey, uint32_t *rkey)
{
	if (!l->reg_dmabuf_mr)
		return -ENOSYS;
	errno = 0;
	*mr = l->reg_dmabuf_mr(pd, offset, length, iova, fd, access_flags(access));
	return registered(*mr, lkey, rkey);
}

int nv_dereg_mr(struct nv_lib *l, struct ibv_mr *mr) { return outcome(l->ibv_dereg_mr(mr)); }

int nv_alloc_mw(struct ibv_pd *pd, struct ibv_mw **mw, uint32_t *rkey)
{
	errno = 0;
	*mw = ibv_alloc_mw(pd, IBV_MW_TYPE_2);
	if (!*mw)
		return failed();
	*rkey = (*mw)->rkey;
	return 0;
}

int nv_dealloc_mw(struct ibv_mw *mw) { return outcome(ibv_dealloc_mw(mw)); }

int nv_create_cq(struct nv_lib *l, struct ibv_context *context, int entries, int vector,
	struct ibv_comp_channel **channel, struct ibv_cq **cq, int *fd, int *got)
{
	int err;

	errno = 0;
	*channel = l->ibv_create_comp_channel(context);
	if (!*channel)
		return failed();
	*cq = l->ibv_create_cq(context, entries, NULL, *channel, vector);
	if (!*cq) {
		err = failed();
		l->ibv_destroy_comp_channel(*channel);
		return err;
	}
	*fd = (*channel)->fd;
	*got = (*cq)->cqe;
	err = nonblocking(*fd);
	if (err)
		nv_destroy_cq(l, *channel, *cq);
	return err;
}

int nv_resize_cq(struct nv_lib *l, struct ibv_cq *cq, int entries, int *got)
{
	int err;

	errno = 0;
	err = outcome(l->ibv_resize_cq(cq, entries));
	*got = cq->cqe;
	return err;
}

int nv_destroy_cq(struct nv_lib *l, struct ibv_comp_channel *channel, struct ibv_cq *cq)
{
	int err = outcome(l->ibv_destroy_cq(cq)), err2 = outcome(l->ibv_destroy_comp_channel(channel));

	return err ? err : err2;
}

int nv_add_cq(struct nv_lib *l, struct ibv_comp_channel *channel, int entries, int vector, struct ibv_cq **cq, int *got)
{
	errno = 0;
	*cq = l->ibv_create_cq(channel->context, entries, NULL, channel, vector);
	if (!*cq)
		return failed();
	*got = (*cq)->cqe;
	return 0;
}

int nv_remove_cq(struct nv_lib *l, struct ibv_cq *cq) { return outcome(l->ibv_destroy_cq(cq)); }

// rdma_rxe has no doorbell: a queue is armed by a command to the kernel. The library sends the command by ioctl(2)
// with attributes, which is more work for the kernel than write(2), by which the device's provider sends the command
// for posted sends. So write(2) is used here.
static int arm_by_command(struct ibv_cq *cq)
{
	struct {
		struct ib_uverbs_cmd_hdr header;
		struct ib_uverbs_req_notify_cq command;
	} request = {
		.header = {.command = IB_USER_VERBS_CMD_REQ_NOTIFY_CQ, .in_words = sizeof request / 4},
		.command = {.cq_handle = cq->handle},
	};

	return write(cq->context->cmd_fd, &request, sizeof request) == (ssize_t)sizeof request;
}

int nv_arm_cq(struct ibv_cq *cq, int rxe)
{
	if (rxe && arm_by_command(cq))
		return 0;
	return outcome(ibv_req_notify_cq(cq, 0));
}

struct ibv_cq *nv_take_cq_event(struct nv_lib *l, struct ibv_comp_channel *channel)
{
	struct ibv_cq *cq;
	void *context;

	if (l->ibv_get_cq_event(channel, &cq, &context))
		return NULL;
	l->ibv_ack_cq_events(cq, 1);
	return cq;
}

int nv_take_cq_events(struct nv_lib *l, struct ibv_comp_channel *channel)
{
	int n = 0;

	while (nv_take_cq_event(l, channel))
		n++;
	return n;
}
