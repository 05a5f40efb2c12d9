// Package interop holds the tests in which the Linux kernel and rdma-core judge
// us, in a Debian guest (package guest). They boot virtual machines, so they
// are skipped unless asked for:
//
//	go test ./test/interop -guest -v -parallel 2 -timeout 70m
//
// In the guest the kernel's rxe answers on one end of a veth pair, in the first
// network namespace, where Linux 6.12 allows it; our static binary answers on
// the other end, in a second namespace, on an ordinary UDP socket.
//
// With -peer=verbs our program sits in a second guest instead and uses that one's
// rxe through libibverbs: all checks again over the other transport. TestVerbsGuests
// has a part of them in every run.
//
// With -peer=kernel a second guest's nvmet-rdma takes our place: every check
// must hold there too, which shows that the checks themselves are right.
//
// With -keep DIR, captures, logs and scripts of every guest stay in DIR; without
// it they stay in a temporary directory, named in the output, if a test fails.
package interop
