// Package doctor examines what a machine offers for RDMA, and says how to provide what is missing.
//
// It has three parts. [Gather] collects [Facts] from files below a root (sysfs, procfs), and from the functions of a
// [Machine] for what no file contains. [Judge] derives the choice of transport and the findings from the facts alone.
// [Text] and [JSON] print the [Report].
//
// Root is not required. Files that cannot be read are listed in Facts.Unread; what depends on them is reported as
// unknown, never guessed.
//
// # Keys of the JSON
//
// They are stable: keys may be added, but none is renamed or changes its meaning. Lists are never null. Sizes are in
// bytes; -1 stands for no limit.
//
//	build        verbs: the program has the verbs transport; libraries: loaded, found
//	             (files are there, but this build does not load them), missing or
//	             unusable; library_detail; ceph: the program has images and groups of Ceph;
//	             ceph_libraries (librbd and librados): found or missing
//	installed    how: package, container or binary; program, package, version; example
//	             (/etc/nvmeof/target.yaml is that of the package: same, changed, absent,
//	             unknown), ceph (that file has images or a group of a Ceph cluster), network (of a container: machine or own), capabilities that the
//	             process has and the program can use, and units: name, enabled, running,
//	             replaced (by an upgrade, and not restarted)
//	devices      name, driver, provider (of libibverbs), software, node_type, transport
//	             (InfiniBand, RoCE, iWARP, other), firmware, board, limits (null where
//	             limits_unknown says why) and ports
//	  limits     queue_pairs, queue_depth, completions, memory_regions, region_bytes,
//	             shared_receive_queues, reads_in (IRD), reads_out (ORD), memory_windows
//	  ports      number, state, physical_state, link_layer, rate, active_mtu (0: not
//	             known), netdevs and gids: index, type, address, netdev
//	interfaces   name, state, mtu, path_mtu (of RoCE over it), rdma_devices, addresses
//	roce_port    who holds UDP port 4791: address, holder (kernel, process, unknown),
//	             pid, program
//	memory       memlock_soft, memlock_hard, exempt (CAP_IPC_LOCK), wanted
//	sockets      rmem_max, wmem_max, exempt (CAP_NET_ADMIN), receive_buffer (what softroce
//	             gets), wanted
//	modules      name, state: loaded, built-in, available, absent, unknown
//	access       path, read_write
//	io_uring     disabled (kernel.io_uring_disabled: 0, 1, 2; -1: no such setting), works,
//	             detail
//	processors   how many the program may use
//	transports   for each address: address, interface, auto (what --transport auto selects),
//	             why, works, problem; softroce and verbs say whether each would work
//	findings     severity (problem, note), what, mend
//	unread       what could not be read, and why
//	works        some transport works at some address; else the exit status is not 0
package doctor
