// Package interop tests this module against the Linux kernel and rdma-core in a Debian guest (package guest). The tests
// boot virtual machines, so they are skipped unless requested:
//
//	go test ./test/interop -guest -v -parallel 2 -timeout 80m
//
// In the guest the kernel's rxe is at one end of a veth pair, in the first network namespace: Linux 6.12 allows it only
// there. Our static binary is at the other end, in a second namespace, on an ordinary UDP socket.
//
// The suites (suites_test.go) are a table. Each suite runs over softroce in all its settings, in a test of its own.
// TestVerbsGuests runs it over verbs, in the settings that the table chooses: our program then runs in a second guest
// and uses that guest's rxe through libibverbs. With -whole TestVerbsGuests runs all settings too, and TestVerbsAlone
// runs a thousand cycles; that takes half an hour more:
//
//	go test ./test/interop -guest -whole -v -run 'TestVerbs' -timeout 80m
//
// With -peer=verbs every test that can runs our program in the second guest, also tests outside the table. With
// -peer=kernel the second guest's nvmet-rdma, or its nvme-rdma, replaces our program. Every check must pass there too,
// which shows that the checks themselves are right. Under loss this run is the control: it shows, and reports, which
// faults rdma_rxe causes by itself.
//
// With -keep DIR, captures, logs and scripts of every guest stay in DIR. Without it they are in a temporary directory,
// which is kept, and named in the output, if a test fails.
package interop
