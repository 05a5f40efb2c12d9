package target

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof"
)

// TestDiscoveryLogIsMadeOnce: any host may read the log as often as it likes, and under any names. With many
// subsystems that costs no more than with few, and each host gets its own log.
func TestDiscoveryLogIsMadeOnce(t *testing.T) {
	const n = 500
	f := newFixture(t)
	l := f.listen("192.0.2.1:4420")
	for i := range n {
		s, err := f.target.AddSubsystem(SubsystemConfig{NQN: nvmeof.NQN(fmt.Sprintf("nqn.2026-11.io.example:many:%04d", i))})
		f.must(err)
		if s.AllowHost("nqn.2026-11.io.example:named"); i < 100 {
			s.AllowAnyHost(true)
		}
	}
	reader := func(host nvmeof.NQN) *Controller {
		return &Controller{target: f.target, subsystem: f.target.discSub, listener: l, hostNQN: host, localAddr: netip.MustParseAddr("192.0.2.1")}
	}
	lengths := func(names int) (got []uint64) {
		got = append(got, discoveryLogLength(reader("nqn.2026-11.io.example:named")))
		for i := range names {
			got = append(got, discoveryLogLength(reader(nvmeof.NQN(fmt.Sprintf("nqn.2026-11.io.example:stranger:%d", i)))))
		}
		slices.Sort(got)
		return slices.Compact(got)
	}
	length := func(records uint64) uint64 {
		return capsule.DiscoveryHeaderSize + (1+records)*capsule.DiscoveryEntrySize
	}
	if got := lengths(20); !slices.Equal(got, []uint64{length(100), length(n)}) {
		t.Errorf("lengths %d", got)
	}
	if made := f.target.shownLogs.of; len(made) != 2 {
		t.Errorf("%d logs are kept for a host that is named and all others", len(made))
	}
	c, b := reader("nqn.2026-11.io.example:other"), make([]byte, 20)
	c.discoveryLog(0, b)
	if got := testing.AllocsPerRun(10, func() { c.discoveryLog(0, b) }); got > 2 {
		t.Errorf("a read allocates %v times", got)
	}
	f.must(f.target.RemoveSubsystem("nqn.2026-11.io.example:many:0000"))
	if got := lengths(1); !slices.Equal(got, []uint64{length(99), length(n - 1)}) {
		t.Errorf("without a subsystem: lengths %d", got)
	}
}
