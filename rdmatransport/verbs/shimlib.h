// Declarations shared by the files of the shim; not to be included elsewhere.

#include "shim.h"

#include <errno.h>
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

// The functions used, by library: X(result, name, parameters). Functions not listed here (posting, polling, windows)
// are called by the headers through the context.
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
	X(struct ibv_srq *, ibv_create_srq, (struct ibv_pd *, struct ibv_srq_init_attr *)) \
	X(int, ibv_destroy_srq, (struct ibv_srq *)) \
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

// ibv_query_port and ibv_reg_mr are macros in the header, so their functions have other names here.
struct nv_lib {
#define POINTER(result, name, parameters) result (*name) parameters;
	VERBS_FUNCTIONS(POINTER)
	CM_FUNCTIONS(POINTER)
#undef POINTER
	int (*query_port)(struct ibv_context *, uint8_t, struct ibv_port_attr *);
	struct ibv_mr *(*reg_mr)(struct ibv_pd *, void *, size_t, int);
	// NULL if libibverbs is older than rdma-core 34.
	struct ibv_mr *(*reg_dmabuf_mr)(struct ibv_pd *, uint64_t, size_t, uint64_t, int, int);
};

// failed returns the negative errno of a function that returned -1 or NULL.
static inline int failed(void) { return errno > 0 ? -errno : -EIO; }

// outcome converts the result of a function that returns 0, -1 with errno, or an errno.
static inline int outcome(int ret) { return ret == 0 ? 0 : ret > 0 ? -ret : failed(); }

// Access rights of memory and queue pairs.
static inline int access_flags(uint32_t access)
{
	return (access & NV_LOCAL_WRITE ? IBV_ACCESS_LOCAL_WRITE : 0) | (access & NV_REMOTE_READ ? IBV_ACCESS_REMOTE_READ : 0) |
		(access & NV_REMOTE_WRITE ? IBV_ACCESS_REMOTE_WRITE : 0) | (access & NV_REMOTE_ATOMIC ? IBV_ACCESS_REMOTE_ATOMIC : 0) |
		(access & NV_WINDOW_BIND ? IBV_ACCESS_MW_BIND : 0);
}
