//go:build verbs && cgo && linux

// Connections.

#include "shimlib.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

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

int nv_set_ack_timeout(struct nv_lib *l, struct rdma_cm_id *id, uint8_t exponent)
{
	errno = 0;
	return outcome(l->rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &exponent, sizeof exponent));
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
