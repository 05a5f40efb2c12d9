// Command soak runs hosts against targets for hours while it injects failures, and verifies what the hosts read.
//
//	go run ./test/soak -hours 8 [-dir STATE] [-guest] [-seed S]
//
// There are two targets with two listeners each. The hosts use this program's library with multipath, or nvmeof attach;
// some have keys. One target, "kept", is killed each minute, and some hosts are killed now and then. The other target,
// "lasting", is not killed, so that its resource use can be watched. Between most hosts and targets is a network that
// loses one packet in a hundred (package relay), which needs no privileges. With -guest a stock Linux host in a guest
// also uses the target that is killed: fio verifies over nvme-rdma, rdma_rxe and multipath.
//
// Meanwhile ANA states change; namespaces are paused, added and removed; listeners are removed and added;
// configurations are applied. Hosts are disconnected, try false keys, and connect and disconnect. Targets are stopped
// for a while, networks are cut, and the raw peer of test/gremlin attacks the target "lasting".
//
// # What is judged
//
//   - Data that are read: package record. A read by any host returns the last acknowledged write or a
//     concurrent one. An acknowledged write is still there after the target was killed with SIGKILL, durable
//     or not, since the kernel had it. That is more than the program promises: a flush or FUA matters only
//     when the machine fails, which test/sim simulates.
//   - No request fails: hosts wait for their paths.
//   - No host is without an answer for longer than -stall. No process exits by itself, and each exits when
//     it is told to.
//   - Resource use of a process in the last tenth of a run is the same as in the first: memory, descriptors,
//     threads, goroutines.
//
// If one of these does not hold, the run ends with status 1 and prints the events before it.
//
// # Several runs
//
// With -dir the files of the namespaces, the record of their content and all counters are kept. A later run continues
// where the last one ended, however it ended. An interrupt ends a run in order and prints the table. The directory is
// of no use after a power failure of the machine, because the record is not flushed.
package main
