package interop

import "testing"

// TestVerbsGuests: our program over verbs on an rxe of its own, with the kernel's
// host and target in another guest: a part of what -peer=verbs has all tests do.
// Under loss our host has no nvmet here: in the one run tried, with rxe at both ends
// and 3 % lost, I/O timed out after a WARNING in rxe_completer at nvmet's end. Whether
// two kernels do better is not known. TestVerbsMixed has our host under loss with a
// target on softroce.
func TestVerbsGuests(t *testing.T) {
	needGuest(t)
	l := newLabWith(t, peerVerbs)
	l.link(t, 1500)
	t.Run("target", func(t *testing.T) { l.judge(t, setting{"memory", 1500, "ipv4"}) })
	t.Run("host", func(t *testing.T) { l.hostAgainstKernel(t, setting{"memory", 1500, "ipv4"}) })
	t.Run("target,loss", func(t *testing.T) {
		l.impaired(t, impairment{name: "target-loses", atPeer: true, impair: "loss 1%", filter: "all"})
	})
}
