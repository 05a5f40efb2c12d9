// Package interop holds the tests in which the Linux kernel and rdma-core judge
// us, in a Debian guest (package guest). They boot virtual machines, so they
// are skipped unless requested:
//
//	go test ./test/interop -guest -v -parallel 2 -timeout 80m
//
// In the guest the kernel's rxe answers on one end of a veth pair, in the first
// network namespace, where Linux 6.12 allows it; our static binary answers on
// the other end, in a second namespace, on an ordinary UDP socket.
//
// The suites (suites_test.go) are a table: each is judged over softroce in all its
// settings, by a test of its own, and over verbs in those that the table chooses, by
// TestVerbsGuests: there our program sits in a second guest and uses that one's rxe
// through libibverbs. With -whole the latter has all settings too, and the cycles of
// TestVerbsAlone are a thousand; that takes half an hour more:
//
//	go test ./test/interop -guest -whole -v -run 'TestVerbs' -timeout 80m
//
// With -peer=verbs every test that can has our program there, also those outside the
// table. With -peer=kernel the second guest's nvmet-rdma, or its nvme-rdma, takes our
// place: every check must hold there too, which shows that the checks themselves are
// right. Under loss it is the control: what rdma_rxe does to itself is seen, and reported,
// there.
//
// With -keep DIR, captures, logs and scripts of every guest stay in DIR; without
// it they stay in a temporary directory, named in the output, if a test fails.
package interop
