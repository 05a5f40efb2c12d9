// The C side of package verbs: functions of libibverbs and librdmacm, loaded at run time, called with flat structs.
// Functions return 0 or a count, or a negative errno.
#ifndef NVMEOF_VERBS_SHIM_H
#define NVMEOF_VERBS_SHIM_H

#include <stddef.h>
#include <stdint.h>

struct ibv_context;
struct ibv_pd;
struct ibv_mr;
struct ibv_mw;
struct ibv_cq;
struct ibv_comp_channel;
struct ibv_qp;
struct ibv_srq;
struct rdma_event_channel;
struct rdma_cm_id;
struct nv_lib; // the libraries' functions

// nv_open_lib loads the libraries. On failure it returns NULL and writes to message which file or function is
// missing.
struct nv_lib *nv_open_lib(char *message, size_t size);
void nv_close_lib(struct nv_lib *);

// An nv_addr is an IP address and port in host order.
struct nv_addr {
	uint8_t family; // 4, 6, or 0 for none
	uint8_t ip[16];
	uint16_t port;
	uint32_t scope;
};

struct nv_attrs {
	char name[64];
	char path[256]; // in sysfs, while the device is there
	uint64_t max_message;
	uint32_t max_srq_wr, max_srq_sge; // 0: no shared receive queues
	uint32_t max_qp_wr, max_sge, max_read_sge, max_cqe, max_reads_in, max_reads_out, comp_vectors, max_inline;
	uint8_t windows; // type 2B
	uint8_t atomics, iwarp, port;
	uint8_t roce;         // on an Ethernet, not iWARP
	uint8_t rxe;          // rdma_rxe: completions carry the kernel's flags, and queues are armed by a command
};

// The device: a context of our own on the RDMA device that owns an address.
int nv_create_channel(struct nv_lib *, struct rdma_event_channel **, int *fd);
void nv_destroy_channel(struct nv_lib *, struct rdma_event_channel *);
int nv_open_device(struct nv_lib *, struct rdma_cm_id *bound, struct ibv_context **, int *async_fd, struct nv_attrs *);
int nv_close_device(struct nv_lib *, struct ibv_context *);
// nv_forsake_device closes the files that librdmacm keeps open on the device of an identifier. It must only be used
// for a device that was removed.
int nv_forsake_device(struct rdma_cm_id *bound);
// nv_id_device returns the RDMA device to which a CM identifier is bound. It fails with -ENODEV if it is bound to
// none. name has 64 bytes.
int nv_id_device(struct nv_lib *, struct rdma_cm_id *, char *name, uint8_t *port);

// An nv_async is an asynchronous event of a device (ibv_get_async_event(3)).
struct nv_async {
	uint32_t qp_num; // where it concerns a queue pair
	uint8_t established, fatal, qp_fatal, cq_fatal, port_down;
	int32_t type;
};
// nv_get_async reads one event. It returns 1, or 0 if there is none.
int nv_get_async(struct nv_lib *, struct ibv_context *, struct nv_async *);

int nv_alloc_pd(struct nv_lib *, struct ibv_context *, struct ibv_pd **);
int nv_dealloc_pd(struct nv_lib *, struct ibv_pd *);

#define NV_LOCAL_WRITE 1
#define NV_REMOTE_READ 2
#define NV_REMOTE_WRITE 4
#define NV_REMOTE_ATOMIC 8
#define NV_WINDOW_BIND 16
int nv_reg_mr(struct nv_lib *, struct ibv_pd *, uintptr_t addr, size_t length, uint32_t access,
	struct ibv_mr **, uint32_t *lkey, uint32_t *rkey);
// nv_reg_dmabuf_mr returns -ENOSYS where libibverbs does not have the function yet.
int nv_reg_dmabuf_mr(struct nv_lib *, struct ibv_pd *, int fd, uint64_t offset, size_t length, uint64_t iova, uint32_t access,
	struct ibv_mr **, uint32_t *lkey, uint32_t *rkey);
int nv_dereg_mr(struct nv_lib *, struct ibv_mr *);
int nv_alloc_mw(struct ibv_pd *, struct ibv_mw **, uint32_t *rkey);
int nv_dealloc_mw(struct ibv_mw *);

// Completion queues.
struct nv_wc {
	uint64_t wr_id;
	uint32_t qp_num, byte_len;
	uint32_t imm; // host order, or the key that was invalidated
	uint32_t vendor_err;
	uint8_t status; // NV_WC_*
	uint8_t has_imm, has_inv, write_imm;
};
enum {
	NV_WC_SUCCESS, NV_WC_FLUSHED, NV_WC_LOCAL_LENGTH, NV_WC_LOCAL_PROTECTION, NV_WC_LOCAL_OPERATION,
	NV_WC_BIND, NV_WC_BAD_RESPONSE, NV_WC_REMOTE_INVALID, NV_WC_REMOTE_ACCESS, NV_WC_REMOTE_OPERATION,
	NV_WC_RETRY, NV_WC_RNR_RETRY, NV_WC_OTHER
};
int nv_create_cq(struct nv_lib *, struct ibv_context *, int entries, int vector,
	struct ibv_comp_channel **, struct ibv_cq **, int *fd, int *got);
int nv_resize_cq(struct nv_lib *, struct ibv_cq *, int entries, int *got);
int nv_destroy_cq(struct nv_lib *, struct ibv_comp_channel *, struct ibv_cq *);
// nv_add_cq makes a second queue with the same channel.
int nv_add_cq(struct nv_lib *, struct ibv_comp_channel *, int entries, int vector, struct ibv_cq **, int *got);
int nv_remove_cq(struct nv_lib *, struct ibv_cq *);
int nv_arm_cq(struct ibv_cq *, int rxe);
// nv_take_cq_event reads one notification and returns its queue, or NULL if there is none. nv_take_cq_events reads
// all and returns their number.
struct ibv_cq *nv_take_cq_event(struct nv_lib *, struct ibv_comp_channel *);
int nv_take_cq_events(struct nv_lib *, struct ibv_comp_channel *);
int nv_poll_cq(struct ibv_cq *, struct nv_wc *, int n, int rxe);

// Queue pairs.
struct nv_qp_init {
	struct ibv_pd *pd;
	struct ibv_cq *send_cq, *recv_cq;
	struct ibv_srq *srq; // or NULL
	uint32_t max_send, max_recv, max_sge, max_inline, access;
	uint8_t port;
};
// nv_create_qp leaves the queue pair in the state INIT.
int nv_create_qp(struct nv_lib *, const struct nv_qp_init *, struct ibv_qp **, uint32_t *qp_num);
int nv_destroy_qp(struct nv_lib *, struct ibv_qp *);
int nv_fail_qp(struct nv_lib *, struct ibv_qp *);
struct nv_connect_attr {
	uint32_t access;
	uint8_t reads_in, reads_out;
	uint8_t ack_timeout; // exponent
	uint8_t ack_bound;   // the CM's counts if it is less
	uint8_t rnr_timer;
};
// nv_ready_qp moves the queue pair to the state RTS with the CM's attributes of the connection.
int nv_ready_qp(struct nv_lib *, struct ibv_qp *, struct rdma_cm_id *, const struct nv_connect_attr *);

struct nv_sge { // as struct ibv_sge
	uint64_t addr;
	uint32_t length, lkey;
};
enum {
	NV_SEND, NV_WRITE, NV_READ, NV_COMPARE_SWAP, NV_FETCH_ADD, NV_BIND, NV_INVALIDATE
};
#define NV_SIGNALED 1
#define NV_FENCE 2
#define NV_IMMEDIATE 4
#define NV_SEND_INVALIDATE 8
#define NV_SOLICITED 16
#define NV_INLINE 32
struct nv_send {
	uint64_t wr_id, remote_addr, compare, operand;
	uintptr_t mw, mr; // NV_BIND
	uint64_t bind_addr, bind_length;
	uint32_t rkey; // of the peer, or the new key of mw
	uint32_t imm;  // host order, or the key to invalidate
	uint32_t first_sge, sges, bind_access;
	uint8_t op, flags;
};
struct nv_recv {
	uint64_t wr_id;
	uint32_t first_sge, sges;
};
// nv_post_send posts a chain, in which each window is bound at most once.
int nv_post_send(struct ibv_qp *, const struct nv_send *, int n, struct nv_sge *);
int nv_post_recv(struct ibv_qp *, const struct nv_recv *, int n, struct nv_sge *);

// Shared receive queues.
int nv_create_srq(struct nv_lib *, struct ibv_pd *, uint32_t max_recv, uint32_t max_sge, struct ibv_srq **);
int nv_destroy_srq(struct nv_lib *, struct ibv_srq *);
int nv_post_srq_recv(struct ibv_srq *, const struct nv_recv *, int n, struct nv_sge *);

// Connections.
struct nv_conn {
	uint32_t qp_num;
	uint8_t reads_in, reads_out, retry, rnr_retry, private_len;
	uint8_t private_data[256];
};
enum {
	NV_EVENT_OTHER, NV_EVENT_ADDR_RESOLVED, NV_EVENT_ADDR_ERROR, NV_EVENT_ROUTE_RESOLVED, NV_EVENT_ROUTE_ERROR,
	NV_EVENT_REQUEST, NV_EVENT_RESPONSE, NV_EVENT_CONNECT_ERROR, NV_EVENT_UNREACHABLE, NV_EVENT_REJECTED,
	NV_EVENT_ESTABLISHED, NV_EVENT_DISCONNECTED, NV_EVENT_REMOVAL, NV_EVENT_ADDR_CHANGE, NV_EVENT_TIMEWAIT_EXIT
};
struct nv_event {
	uint64_t token;          // of the identifier; for a request the listener's
	struct rdma_cm_id *id;   // the new identifier of a request
	int32_t status;          // negative errno, or the reason of a rejection
	uint8_t type;
	uint8_t reads_in, reads_out, private_len;
	uint8_t private_data[256];
	struct nv_addr local, remote;
};
// nv_get_event reads and acknowledges one event. It returns 1, or 0 if there is none. The identifier of a new
// connection gets the token next.
int nv_get_event(struct nv_lib *, struct rdma_event_channel *, uint64_t next, struct nv_event *);

int nv_create_id(struct nv_lib *, struct rdma_event_channel *, uint64_t token, struct rdma_cm_id **);
int nv_destroy_id(struct nv_lib *, struct rdma_cm_id *);
int nv_bind(struct nv_lib *, struct rdma_cm_id *, const struct nv_addr *);
int nv_listen(struct nv_lib *, struct rdma_cm_id *, int backlog, uint16_t *port);
int nv_set_tos(struct nv_lib *, struct rdma_cm_id *, uint8_t);
// nv_set_ack_timeout, called before the route is resolved, also makes the connection request carry the timeout to the
// peer. It needs Linux 5.4 or later.
int nv_set_ack_timeout(struct nv_lib *, struct rdma_cm_id *, uint8_t exponent);
int nv_resolve_addr(struct nv_lib *, struct rdma_cm_id *, const struct nv_addr *from, const struct nv_addr *to, int ms);
int nv_resolve_route(struct nv_lib *, struct rdma_cm_id *, int ms);
int nv_connect(struct nv_lib *, struct rdma_cm_id *, const struct nv_conn *);
int nv_establish(struct nv_lib *, struct rdma_cm_id *);
int nv_accept(struct nv_lib *, struct rdma_cm_id *, const struct nv_conn *);
int nv_reject(struct nv_lib *, struct rdma_cm_id *, const uint8_t *data, uint8_t length);
int nv_disconnect(struct nv_lib *, struct rdma_cm_id *);
// nv_data_arrived tells the CM that data has arrived on a connection whose RTU was lost.
int nv_data_arrived(struct nv_lib *, struct rdma_cm_id *);
void nv_addresses(struct rdma_cm_id *, struct nv_addr *local, struct nv_addr *remote);

#endif
