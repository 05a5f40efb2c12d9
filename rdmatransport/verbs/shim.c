//go:build verbs && cgo && linux

#include "shim.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <netinet/in.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(sizeof(struct nv_sge) == sizeof(struct ibv_sge), "nv_sge is passed as ibv_sge");
_Static_assert(offsetof(struct nv_sge, length) == offsetof(struct ibv_sge, length), "nv_sge is passed as ibv_sge");
_Static_assert(offsetof(struct nv_sge, lkey) == offsetof(struct ibv_sge, lkey), "nv_sge is passed as ibv_sge");

// The functions used, by library: X(result, name, parameters). What is missing here
// (posting, polling, windows) the headers call through the context.
#define VERBS_FUNCTIONS(X) \
	X(struct ibv_context *, ibv_open_device, (struct ibv_device *)) \
	X(int, ibv_close_device, (struct ibv_context *)) \
	X(const char *, ibv_get_device_name, (struct ibv_device *)) \
	X(int, ibv_query_device, (struct ibv_context *, struct ibv_device_attr *)) \
	X(int, ibv_get_async_event, (struct ibv_context *, struct ibv_async_event *)) \
	X(void, ibv_ack_async_event, (struct ibv_async_event *)) \
	X(struct ibv_pd *, ibv_alloc_pd, (struct ibv_context *)) \
	X(int, ibv_dealloc_pd, (struct ibv_pd *)) \
	X(int, ibv_dereg_mr, (struct ibv_mr *)) \
	X(struct ibv_comp_channel *, ibv_create_comp_channel, (struct ibv_context *)) \
	X(int, ibv_destroy_comp_channel, (struct ibv_comp_channel *)) \
	X(struct ibv_cq *, ibv_create_cq, (struct ibv_context *, int, void *, struct ibv_comp_channel *, int)) \
	X(int, ibv_resize_cq, (struct ibv_cq *, int)) \
	X(int, ibv_destroy_cq, (struct ibv_cq *)) \
	X(int, ibv_get_cq_event, (struct ibv_comp_channel *, struct ibv_cq **, void **)) \
	X(void, ibv_ack_cq_events, (struct ibv_cq *, unsigned int)) \
	X(struct ibv_qp *, ibv_create_qp, (struct ibv_pd *, struct ibv_qp_init_attr *)) \
	X(int, ibv_modify_qp, (struct ibv_qp *, struct ibv_qp_attr *, int)) \
	X(int, ibv_destroy_qp, (struct ibv_qp *))

#define CM_FUNCTIONS(X) \
	X(struct rdma_event_channel *, rdma_create_event_channel, (void)) \
	X(void, rdma_destroy_event_channel, (struct rdma_event_channel *)) \
	X(int, rdma_create_id, (struct rdma_event_channel *, struct rdma_cm_id **, void *, enum rdma_port_space)) \
	X(int, rdma_destroy_id, (struct rdma_cm_id *)) \
	X(int, rdma_bind_addr, (struct rdma_cm_id *, struct sockaddr *)) \
	X(int, rdma_resolve_addr, (struct rdma_cm_id *, struct sockaddr *, struct sockaddr *, int)) \
	X(int, rdma_resolve_route, (struct rdma_cm_id *, int)) \
	X(int, rdma_connect, (struct rdma_cm_id *, struct rdma_conn_param *)) \
	X(int, rdma_establish, (struct rdma_cm_id *)) \
	X(int, rdma_listen, (struct rdma_cm_id *, int)) \
	X(int, rdma_accept, (struct rdma_cm_id *, struct rdma_conn_param *)) \
	X(int, rdma_reject, (struct rdma_cm_id *, const void *, uint8_t)) \
	X(int, rdma_notify, (struct rdma_cm_id *, enum ibv_event_type)) \
	X(int, rdma_disconnect, (struct rdma_cm_id *)) \
	X(int, rdma_get_cm_event, (struct rdma_event_channel *, struct rdma_cm_event **)) \
	X(int, rdma_ack_cm_event, (struct rdma_cm_event *)) \
	X(int, rdma_set_option, (struct rdma_cm_id *, int, int, void *, size_t)) \
	X(int, rdma_init_qp_attr, (struct rdma_cm_id *, struct ibv_qp_attr *, int *)) \
	X(__be16, rdma_get_src_port, (struct rdma_cm_id *))

// ibv_query_port and ibv_reg_mr are macros in the header: their functions go by
// names of our own.
struct nv_lib {
#define POINTER(result, name, parameters) result (*name) parameters;
	VERBS_FUNCTIONS(POINTER)
	CM_FUNCTIONS(POINTER)
#undef POINTER
	int (*query_port)(struct ibv_context *, uint8_t, struct ibv_port_attr *);
	struct ibv_mr *(*reg_mr)(struct ibv_pd *, void *, size_t, int);
};

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

// The libraries stay loaded: they have threads and fork handlers of their own.
struct nv_lib *nv_open_lib(char *message, size_t size)
{
	struct nv_lib *l = calloc(1, sizeof *l);
	void *verbs = dlopen(VERBS_FILE, RTLD_NOW | RTLD_GLOBAL), *cm = verbs ? dlopen(CM_FILE, RTLD_NOW | RTLD_GLOBAL) : NULL;

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
	return l;
}

void nv_close_lib(struct nv_lib *l) { free(l); }

// failed is the negative errno of a function that returned -1 or NULL.
static int failed(void) { return errno > 0 ? -errno : -EIO; }

// outcome translates a function that returns 0, -1 with errno, or an errno.
static int outcome(int ret) { return ret == 0 ? 0 : ret > 0 ? -ret : failed(); }

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

// probe_inline finds how much a queue pair of this device can take inline, which no
// attribute tells.
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

// rdma_rxe has this vendor. It writes completions for user space itself, with the
// kernel's flags (IB_WC_WITH_INVALIDATE is 4), and its library passes them on.
#define RXE_VENDOR 0xffffff
#define KERNEL_WITH_INVALIDATE 4

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
	if (dev.max_sge_rd > 0 && dev.max_sge_rd < dev.max_sge)
		a->max_sge = dev.max_sge_rd;
	a->max_cqe = dev.max_cqe;
	a->max_reads_in = dev.max_qp_rd_atom;
	a->max_reads_out = dev.max_qp_init_rd_atom;
	a->comp_vectors = context->num_comp_vectors > 0 ? context->num_comp_vectors : 1;
	a->iwarp = context->device->transport_type == IBV_TRANSPORT_IWARP;
	a->windows = (dev.device_cap_flags & IBV_DEVICE_MEM_WINDOW_TYPE_2B) && dev.max_mw > 0;
	a->kernel_flags = dev.vendor_id == RXE_VENDOR;
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

static int access_flags(uint32_t access)
{
	return (access & NV_LOCAL_WRITE ? IBV_ACCESS_LOCAL_WRITE : 0) | (access & NV_REMOTE_READ ? IBV_ACCESS_REMOTE_READ : 0) |
		(access & NV_REMOTE_WRITE ? IBV_ACCESS_REMOTE_WRITE : 0) | (access & NV_REMOTE_ATOMIC ? IBV_ACCESS_REMOTE_ATOMIC : 0) |
		(access & NV_WINDOW_BIND ? IBV_ACCESS_MW_BIND : 0);
}

int nv_reg_mr(struct nv_lib *l, struct ibv_pd *pd, uintptr_t addr, size_t length, uint32_t access,
	struct ibv_mr **mr, uint32_t *lkey, uint32_t *rkey)
{
	errno = 0;
	*mr = l->reg_mr(pd, (void *)addr, length, access_flags(access));
	if (!*mr)
		return failed();
	*lkey = (*mr)->lkey;
	*rkey = (*mr)->rkey;
	return 0;
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

int nv_arm_cq(struct ibv_cq *cq) { return outcome(ibv_req_notify_cq(cq, 0)); }

int nv_take_cq_events(struct nv_lib *l, struct ibv_comp_channel *channel)
{
	struct ibv_cq *cq;
	void *context;
	int n = 0;

	while (!l->ibv_get_cq_event(channel, &cq, &context)) {
		l->ibv_ack_cq_events(cq, 1);
		n++;
	}
	return n;
}

static uint8_t status_of(enum ibv_wc_status s)
{
	switch (s) {
	case IBV_WC_SUCCESS: return NV_WC_SUCCESS;
	case IBV_WC_WR_FLUSH_ERR: return NV_WC_FLUSHED;
	case IBV_WC_LOC_LEN_ERR: return NV_WC_LOCAL_LENGTH;
	case IBV_WC_LOC_PROT_ERR:
	case IBV_WC_LOC_ACCESS_ERR: return NV_WC_LOCAL_PROTECTION;
	case IBV_WC_LOC_QP_OP_ERR:
	case IBV_WC_FATAL_ERR:
	case IBV_WC_GENERAL_ERR: return NV_WC_LOCAL_OPERATION;
	case IBV_WC_MW_BIND_ERR: return NV_WC_BIND;
	case IBV_WC_BAD_RESP_ERR: return NV_WC_BAD_RESPONSE;
	case IBV_WC_REM_INV_REQ_ERR: return NV_WC_REMOTE_INVALID;
	case IBV_WC_REM_ACCESS_ERR: return NV_WC_REMOTE_ACCESS;
	case IBV_WC_REM_OP_ERR:
	case IBV_WC_REM_ABORT_ERR: return NV_WC_REMOTE_OPERATION;
	case IBV_WC_RETRY_EXC_ERR:
	case IBV_WC_RESP_TIMEOUT_ERR: return NV_WC_RETRY;
	case IBV_WC_RNR_RETRY_EXC_ERR: return NV_WC_RNR_RETRY;
	default: return NV_WC_OTHER;
	}
}

#define BATCH 64

int nv_poll_cq(struct ibv_cq *cq, struct nv_wc *out, int n, int kernel_flags)
{
	const unsigned int with_inv = IBV_WC_WITH_INV | (kernel_flags ? KERNEL_WITH_INVALIDATE : 0);
	struct ibv_wc wcs[BATCH];
	int i;

	n = ibv_poll_cq(cq, n < BATCH ? n : BATCH, wcs);
	for (i = 0; i < n; i++) {
		const struct ibv_wc *w = &wcs[i];
		struct nv_wc *o = &out[i];

		o->wr_id = w->wr_id;
		o->qp_num = w->qp_num;
		o->byte_len = w->byte_len;
		o->vendor_err = w->vendor_err;
		o->status = status_of(w->status);
		o->has_imm = o->has_inv = o->write_imm = 0;
		if (w->status != IBV_WC_SUCCESS || !(w->opcode & IBV_WC_RECV))
			continue;
		o->write_imm = w->opcode == IBV_WC_RECV_RDMA_WITH_IMM;
		o->has_imm = !!(w->wc_flags & IBV_WC_WITH_IMM);
		o->has_inv = !o->has_imm && (w->wc_flags & with_inv);
		o->imm = o->has_imm ? ntohl(w->imm_data) : o->has_inv ? w->invalidated_rkey : 0;
	}
	return n;
}

int nv_create_qp(struct nv_lib *l, const struct nv_qp_init *p, struct ibv_qp **qp, uint32_t *qp_num)
{
	struct ibv_qp_init_attr init = {
		.send_cq = p->cq, .recv_cq = p->cq, .qp_type = IBV_QPT_RC,
		.cap = {
			.max_send_wr = p->max_send, .max_recv_wr = p->max_recv, .max_send_sge = p->max_sge,
			.max_recv_sge = p->max_sge, .max_inline_data = p->max_inline,
		},
	};
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = p->port, .qp_access_flags = access_flags(p->access) };
	int err;

	errno = 0;
	*qp = l->ibv_create_qp(p->pd, &init);
	if (!*qp)
		return failed();
	*qp_num = (*qp)->qp_num;
	err = outcome(l->ibv_modify_qp(*qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
	if (err)
		l->ibv_destroy_qp(*qp);
	return err;
}

int nv_destroy_qp(struct nv_lib *l, struct ibv_qp *qp) { return outcome(l->ibv_destroy_qp(qp)); }

int nv_fail_qp(struct nv_lib *l, struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };

	return outcome(l->ibv_modify_qp(qp, &attr, IBV_QP_STATE));
}

// step moves a queue pair to the next state with the CM's attributes and ours. The
// mask is empty where the CM moves it by itself (iWARP to RTS).
static int step(struct nv_lib *l, struct ibv_qp *qp, struct rdma_cm_id *id, enum ibv_qp_state state, const struct nv_connect_attr *p)
{
	struct ibv_qp_attr attr = { .qp_state = state };
	int mask = 0, err = outcome(l->rdma_init_qp_attr(id, &attr, &mask));

	if (err || !mask)
		return err;
	if (mask & IBV_QP_ACCESS_FLAGS)
		attr.qp_access_flags = access_flags(p->access);
	if (mask & IBV_QP_MAX_DEST_RD_ATOMIC)
		attr.max_dest_rd_atomic = p->reads_in;
	if (mask & IBV_QP_MAX_QP_RD_ATOMIC)
		attr.max_rd_atomic = p->reads_out;
	if (mask & IBV_QP_MIN_RNR_TIMER) // the CM says 0, which is 655 ms
		attr.min_rnr_timer = p->rnr_timer;
	if ((mask & IBV_QP_TIMEOUT) && p->ack_timeout)
		attr.timeout = p->ack_timeout;
	return outcome(l->ibv_modify_qp(qp, &attr, mask));
}

int nv_ready_qp(struct nv_lib *l, struct ibv_qp *qp, struct rdma_cm_id *id, const struct nv_connect_attr *p)
{
	int err = step(l, qp, id, IBV_QPS_INIT, p);

	if (!err)
		err = step(l, qp, id, IBV_QPS_RTR, p);
	if (!err)
		err = step(l, qp, id, IBV_QPS_RTS, p);
	return err;
}

static enum ibv_wr_opcode opcode_of(const struct nv_send *s)
{
	switch (s->op) {
	case NV_WRITE: return s->flags & NV_IMMEDIATE ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_RDMA_WRITE;
	case NV_READ: return IBV_WR_RDMA_READ;
	case NV_COMPARE_SWAP: return IBV_WR_ATOMIC_CMP_AND_SWP;
	case NV_FETCH_ADD: return IBV_WR_ATOMIC_FETCH_AND_ADD;
	case NV_BIND: return IBV_WR_BIND_MW;
	case NV_INVALIDATE: return IBV_WR_LOCAL_INV;
	default:
		return s->flags & NV_SEND_INVALIDATE ? IBV_WR_SEND_WITH_INV : s->flags & NV_IMMEDIATE ? IBV_WR_SEND_WITH_IMM : IBV_WR_SEND;
	}
}

static void fill_send(struct ibv_send_wr *w, const struct nv_send *s, struct nv_sge *sges)
{
	memset(w, 0, sizeof *w);
	w->wr_id = s->wr_id;
	w->opcode = opcode_of(s);
	w->sg_list = (struct ibv_sge *)&sges[s->first_sge];
	w->num_sge = s->sges;
	w->send_flags = (s->flags & NV_SIGNALED ? IBV_SEND_SIGNALED : 0) | (s->flags & NV_FENCE ? IBV_SEND_FENCE : 0) |
		(s->flags & NV_SOLICITED ? IBV_SEND_SOLICITED : 0) | (s->flags & NV_INLINE ? IBV_SEND_INLINE : 0);
	switch (w->opcode) {
	case IBV_WR_BIND_MW:
		w->bind_mw.mw = (struct ibv_mw *)s->mw;
		w->bind_mw.rkey = s->rkey;
		w->bind_mw.bind_info.mr = (struct ibv_mr *)s->mr;
		w->bind_mw.bind_info.addr = s->bind_addr;
		w->bind_mw.bind_info.length = s->bind_length;
		w->bind_mw.bind_info.mw_access_flags = access_flags(s->bind_access);
		break;
	case IBV_WR_SEND_WITH_INV:
	case IBV_WR_LOCAL_INV:
		w->invalidate_rkey = s->imm;
		break;
	case IBV_WR_ATOMIC_CMP_AND_SWP:
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		w->wr.atomic.remote_addr = s->remote_addr;
		w->wr.atomic.rkey = s->rkey;
		w->wr.atomic.compare_add = s->op == NV_FETCH_ADD ? s->operand : s->compare;
		w->wr.atomic.swap = s->operand;
		break;
	default:
		w->imm_data = s->flags & NV_IMMEDIATE ? htonl(s->imm) : 0;
		w->wr.rdma.remote_addr = s->remote_addr;
		w->wr.rdma.rkey = s->rkey;
	}
}

int nv_post_send(struct ibv_qp *qp, const struct nv_send *s, int n, struct nv_sge *sges, int *posted)
{
	struct ibv_send_wr wrs[BATCH], *bad;
	int i, k, err = 0;

	for (*posted = 0; !err && *posted < n; s += k) {
		k = n - *posted < BATCH ? n - *posted : BATCH;
		for (i = 0; i < k; i++) {
			fill_send(&wrs[i], &s[i], sges);
			wrs[i].next = i + 1 < k ? &wrs[i + 1] : NULL;
		}
		bad = NULL;
		errno = 0;
		err = outcome(ibv_post_send(qp, wrs, &bad));
		*posted += err && bad ? bad - wrs : err ? 0 : k;
		// The driver finds the window's present key in its object (rdma_rxe).
		for (i = 0; i < k; i++)
			if (wrs[i].opcode == IBV_WR_BIND_MW)
				wrs[i].bind_mw.mw->rkey = wrs[i].bind_mw.rkey;
	}
	return err;
}

int nv_post_recv(struct ibv_qp *qp, const struct nv_recv *r, int n, struct nv_sge *sges, int *posted)
{
	struct ibv_recv_wr wrs[BATCH], *bad;
	int i, k, err = 0;

	for (*posted = 0; !err && *posted < n; r += k) {
		k = n - *posted < BATCH ? n - *posted : BATCH;
		for (i = 0; i < k; i++)
			wrs[i] = (struct ibv_recv_wr){
				.wr_id = r[i].wr_id, .sg_list = (struct ibv_sge *)&sges[r[i].first_sge], .num_sge = r[i].sges,
				.next = i + 1 < k ? &wrs[i + 1] : NULL,
			};
		bad = NULL;
		errno = 0;
		err = outcome(ibv_post_recv(qp, wrs, &bad));
		*posted += err && bad ? bad - wrs : err ? 0 : k;
	}
	return err;
}

static void to_sockaddr(const struct nv_addr *a, struct sockaddr_storage *s)
{
	memset(s, 0, sizeof *s);
	if (a->family == 6) {
		struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)s;
		in6->sin6_family = AF_INET6;
		in6->sin6_port = htons(a->port);
		in6->sin6_scope_id = a->scope;
		memcpy(&in6->sin6_addr, a->ip, 16);
		return;
	}
	struct sockaddr_in *in = (struct sockaddr_in *)s;
	in->sin_family = AF_INET;
	in->sin_port = htons(a->port);
	memcpy(&in->sin_addr, a->ip, 4);
}

static void from_sockaddr(const struct sockaddr *s, struct nv_addr *a)
{
	memset(a, 0, sizeof *a);
	if (s->sa_family == AF_INET6) {
		const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)s;
		a->family = 6;
		a->port = ntohs(in6->sin6_port);
		a->scope = in6->sin6_scope_id;
		memcpy(a->ip, &in6->sin6_addr, 16);
	} else if (s->sa_family == AF_INET) {
		const struct sockaddr_in *in = (const struct sockaddr_in *)s;
		a->family = 4;
		a->port = ntohs(in->sin_port);
		memcpy(a->ip, &in->sin_addr, 4);
	}
}

void nv_addresses(struct rdma_cm_id *id, struct nv_addr *local, struct nv_addr *remote)
{
	from_sockaddr(&id->route.addr.src_addr, local);
	from_sockaddr(&id->route.addr.dst_addr, remote);
}

static uint8_t event_type(enum rdma_cm_event_type t)
{
	switch (t) {
	case RDMA_CM_EVENT_ADDR_RESOLVED: return NV_EVENT_ADDR_RESOLVED;
	case RDMA_CM_EVENT_ADDR_ERROR: return NV_EVENT_ADDR_ERROR;
	case RDMA_CM_EVENT_ROUTE_RESOLVED: return NV_EVENT_ROUTE_RESOLVED;
	case RDMA_CM_EVENT_ROUTE_ERROR: return NV_EVENT_ROUTE_ERROR;
	case RDMA_CM_EVENT_CONNECT_REQUEST: return NV_EVENT_REQUEST;
	case RDMA_CM_EVENT_CONNECT_RESPONSE: return NV_EVENT_RESPONSE;
	case RDMA_CM_EVENT_CONNECT_ERROR: return NV_EVENT_CONNECT_ERROR;
	case RDMA_CM_EVENT_UNREACHABLE: return NV_EVENT_UNREACHABLE;
	case RDMA_CM_EVENT_REJECTED: return NV_EVENT_REJECTED;
	case RDMA_CM_EVENT_ESTABLISHED: return NV_EVENT_ESTABLISHED;
	case RDMA_CM_EVENT_DISCONNECTED: return NV_EVENT_DISCONNECTED;
	case RDMA_CM_EVENT_DEVICE_REMOVAL: return NV_EVENT_REMOVAL;
	case RDMA_CM_EVENT_ADDR_CHANGE: return NV_EVENT_ADDR_CHANGE;
	case RDMA_CM_EVENT_TIMEWAIT_EXIT: return NV_EVENT_TIMEWAIT_EXIT;
	default: return NV_EVENT_OTHER;
	}
}

int nv_get_event(struct nv_lib *l, struct rdma_event_channel *channel, uint64_t next, struct nv_event *out)
{
	struct rdma_cm_event *e;

	errno = 0;
	if (l->rdma_get_cm_event(channel, &e))
		return errno == EAGAIN ? 0 : failed();
	out->type = event_type(e->event);
	out->status = e->status;
	out->token = (uintptr_t)e->id->context;
	out->id = NULL;
	out->private_len = e->param.conn.private_data ? e->param.conn.private_data_len : 0;
	out->reads_in = e->param.conn.responder_resources;
	out->reads_out = e->param.conn.initiator_depth;
	if (out->private_len)
		memcpy(out->private_data, e->param.conn.private_data, out->private_len);
	nv_addresses(e->id, &out->local, &out->remote);
	if (out->type == NV_EVENT_REQUEST) {
		out->id = e->id;
		e->id->context = (void *)(uintptr_t)next;
	}
	l->rdma_ack_cm_event(e);
	return 1;
}

int nv_create_id(struct nv_lib *l, struct rdma_event_channel *channel, uint64_t token, struct rdma_cm_id **id)
{
	errno = 0;
	return outcome(l->rdma_create_id(channel, id, (void *)(uintptr_t)token, RDMA_PS_TCP));
}

int nv_destroy_id(struct nv_lib *l, struct rdma_cm_id *id) { return outcome(l->rdma_destroy_id(id)); }

int nv_bind(struct nv_lib *l, struct rdma_cm_id *id, const struct nv_addr *a)
{
	struct sockaddr_storage s;

	to_sockaddr(a, &s);
	errno = 0;
	return outcome(l->rdma_bind_addr(id, (struct sockaddr *)&s));
}

int nv_listen(struct nv_lib *l, struct rdma_cm_id *id, int backlog, uint16_t *port)
{
	int err;

	errno = 0;
	err = outcome(l->rdma_listen(id, backlog));
	*port = ntohs(l->rdma_get_src_port(id));
	return err;
}

int nv_set_tos(struct nv_lib *l, struct rdma_cm_id *id, uint8_t tos)
{
	errno = 0;
	return outcome(l->rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &tos, sizeof tos));
}

int nv_resolve_addr(struct nv_lib *l, struct rdma_cm_id *id, const struct nv_addr *from, const struct nv_addr *to, int ms)
{
	struct sockaddr_storage src, dst;

	to_sockaddr(from, &src);
	to_sockaddr(to, &dst);
	errno = 0;
	return outcome(l->rdma_resolve_addr(id, (struct sockaddr *)&src, (struct sockaddr *)&dst, ms));
}

int nv_resolve_route(struct nv_lib *l, struct rdma_cm_id *id, int ms)
{
	errno = 0;
	return outcome(l->rdma_resolve_route(id, ms));
}

static struct rdma_conn_param conn_param(const struct nv_conn *p)
{
	return (struct rdma_conn_param){
		.private_data = p->private_data, .private_data_len = p->private_len,
		.responder_resources = p->reads_in, .initiator_depth = p->reads_out, .flow_control = 1,
		.retry_count = p->retry, .rnr_retry_count = p->rnr_retry, .qp_num = p->qp_num,
	};
}

int nv_connect(struct nv_lib *l, struct rdma_cm_id *id, const struct nv_conn *p)
{
	struct rdma_conn_param c = conn_param(p);

	errno = 0;
	return outcome(l->rdma_connect(id, &c));
}

int nv_establish(struct nv_lib *l, struct rdma_cm_id *id)
{
	errno = 0;
	return outcome(l->rdma_establish(id));
}

int nv_accept(struct nv_lib *l, struct rdma_cm_id *id, const struct nv_conn *p)
{
	struct rdma_conn_param c = conn_param(p);

	errno = 0;
	return outcome(l->rdma_accept(id, &c));
}

int nv_reject(struct nv_lib *l, struct rdma_cm_id *id, const uint8_t *data, uint8_t length)
{
	errno = 0;
	return outcome(l->rdma_reject(id, data, length));
}

int nv_disconnect(struct nv_lib *l, struct rdma_cm_id *id)
{
	errno = 0;
	return outcome(l->rdma_disconnect(id));
}

int nv_data_arrived(struct nv_lib *l, struct rdma_cm_id *id)
{
	errno = 0;
	return outcome(l->rdma_notify(id, IBV_EVENT_COMM_EST));
}
