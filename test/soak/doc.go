// Command soak lets hosts work on targets for hours while things befall them, and verifies
// what they read.
//
//	go run ./test/soak -hours 8 [-dir STATE] [-guest] [-seed S]
//
// There are two targets, each with two listeners, and hosts of this program's library, with
// multipath, and of nvmeof attach, some with keys. One target is killed each minute, and
// so is a host now and then; the other one lasts, so that what it uses can be watched. Between
// most hosts and targets is a network that loses a packet of a hundred (package relay), which
// needs no right to anything. With -guest a stock Linux host in a guest is among the hosts of
// the target that is killed: fio verifies over its nvme-rdma, rdma_rxe and multipath. Meanwhile ANA states change, namespaces are paused, come and
// go, listeners too, configurations are applied, hosts are disconnected, try false keys and
// come and go, targets fall silent, networks are cut, and the raw peer of test/gremlin
// attacks the target that lasts.
//
// # What is judged
//
//   - What is read: package record. A read returns the last acknowledged write, or a
//     concurrent one, whoever reads; and what was acknowledged is there when the target is back
//     after kill -9, be it durable or not, since the kernel had it. That is more than is
//     promised: a flush, or FUA, has to be worth it only where the machine dies, which it does
//     in test/sim.
//   - No request fails: hosts wait for their paths.
//   - No host is without an answer for longer than -stall; no process ends by itself, or does
//     not end when it has to.
//   - What a process uses in the last tenth of a run is what it used in the first: memory,
//     descriptors, threads, goroutines.
//
// Where one of that does not hold the run ends with status 1, and with what happened before.
//
// # In pieces
//
// With -dir the files of the namespaces, the record of what is in them, and all counters
// stay, and another run goes on where that one ended, by whatever: an interrupt ends it in
// order, with the table. The folder is of no use after a power failure of the machine: the
// record is not flushed.
package main
