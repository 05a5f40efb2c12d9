//go:build verbs && cgo && linux

// Queue pairs and work.

#include "shimlib.h"

#include <stdlib.h>
#include <string.h>

_Static_assert(sizeof(struct nv_sge) == sizeof(struct ibv_sge), "nv_sge is passed as ibv_sge");
_Static_assert(offsetof(struct nv_sge, length) == offsetof(struct ibv_sge, length), "nv_sge is passed as ibv_sge");
_Static_assert(offsetof(struct nv_sge, lkey) == offsetof(struct ibv_sge, lkey), "nv_sge is passed as ibv_sge");

#define KERNEL_WITH_INVALIDATE 4 // IB_WC_WITH_INVALIDATE, see nv_attrs.rxe

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

int nv_poll_cq(struct ibv_cq *cq, struct nv_wc *out, int n, int rxe)
{
	const unsigned int with_inv = IBV_WC_WITH_INV | (rxe ? KERNEL_WITH_INVALIDATE : 0);
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
		.send_cq = p->send_cq, .recv_cq = p->recv_cq, .srq = p->srq, .qp_type = IBV_QPT_RC,
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

// step moves a queue pair to the next state with the CM's attributes and ours. The mask is empty if the CM moves it
// by itself (iWARP to RTS).
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
	if ((mask & IBV_QP_TIMEOUT) && (!p->ack_bound || !attr.timeout || attr.timeout > p->ack_timeout)) // 0: without end
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

int nv_post_send(struct ibv_qp *qp, const struct nv_send *s, int n, struct nv_sge *sges)
{
	struct ibv_send_wr wrs[BATCH], *bad;
	int i, k, err = 0;

	for (; !err && n > 0; s += k, n -= k) {
		k = n < BATCH ? n : BATCH;
		for (i = 0; i < k; i++) {
			fill_send(&wrs[i], &s[i], sges);
			wrs[i].next = i + 1 < k ? &wrs[i + 1] : NULL;
		}
		bad = NULL;
		errno = 0;
		err = outcome(ibv_post_send(qp, wrs, &bad));
		// The driver takes the window's current key from its object (rdma_rxe).
		for (i = 0; i < k; i++)
			if (wrs[i].opcode == IBV_WR_BIND_MW)
				wrs[i].bind_mw.mw->rkey = wrs[i].bind_mw.rkey;
	}
	return err;
}

// post_receives posts to a queue pair, or to a shared receive queue if srq is not NULL.
static int post_receives(struct ibv_qp *qp, struct ibv_srq *srq, const struct nv_recv *r, int n, struct nv_sge *sges)
{
	struct ibv_recv_wr wrs[BATCH], *bad;
	int i, k, err = 0;

	for (; !err && n > 0; r += k, n -= k) {
		k = n < BATCH ? n : BATCH;
		for (i = 0; i < k; i++)
			wrs[i] = (struct ibv_recv_wr){
				.wr_id = r[i].wr_id, .sg_list = (struct ibv_sge *)&sges[r[i].first_sge], .num_sge = r[i].sges,
				.next = i + 1 < k ? &wrs[i + 1] : NULL,
			};
		bad = NULL;
		errno = 0;
		err = outcome(srq ? ibv_post_srq_recv(srq, wrs, &bad) : ibv_post_recv(qp, wrs, &bad));
	}
	return err;
}

int nv_post_recv(struct ibv_qp *qp, const struct nv_recv *r, int n, struct nv_sge *sges)
{
	return post_receives(qp, NULL, r, n, sges);
}

int nv_post_srq_recv(struct ibv_srq *srq, const struct nv_recv *r, int n, struct nv_sge *sges)
{
	return post_receives(NULL, srq, r, n, sges);
}

int nv_create_srq(struct nv_lib *l, struct ibv_pd *pd, uint32_t max_recv, uint32_t max_sge, struct ibv_srq **srq)
{
	struct ibv_srq_init_attr init = { .attr = { .max_wr = max_recv, .max_sge = max_sge } };

	errno = 0;
	*srq = l->ibv_create_srq(pd, &init);
	return *srq ? 0 : failed();
}

int nv_destroy_srq(struct nv_lib *l, struct ibv_srq *srq) { return outcome(l->ibv_destroy_srq(srq)); }
