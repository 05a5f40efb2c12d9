// Attributes that RDMA devices report.
#ifndef NVMEOF_VERBS_SHIMDEVICES_H
#define NVMEOF_VERBS_SHIMDEVICES_H

#include "shim.h"

#define NV_MAX_PORTS 8

struct nv_device_info {
	char name[64];
	int32_t error; // negative errno where the device could not be asked
	int32_t max_qp, max_qp_wr, max_cqe, max_mr, max_srq, max_reads_in, max_reads_out, max_mw;
	uint64_t max_mr_size;
	uint32_t ports;
	uint32_t mtu[NV_MAX_PORTS]; // bytes; 0: not known
};

// nv_list_devices asks up to max devices. It needs libibverbs to be loaded
// (nv_open_lib), and returns how many there are.
int nv_list_devices(struct nv_device_info *, int max);

#endif
