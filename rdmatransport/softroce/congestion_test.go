package softroce

import (
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nvmeof-go/nvmeof/rdmatransport"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce/internal/rc"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce/internal/udp"
)

// TestCongestionLoop: ECN marks on a device's packets come back as CNPs and slow it down, for WRITEs and for
// responses to READs.
func TestCongestionLoop(t *testing.T) {
	for _, c := range []struct {
		name string
		cfg  Config
		mark float64
		slow bool
	}{
		{"no marks", Config{}, 0, false},
		{"marks", Config{}, 0.5, true},
		{"not ECN capable", Config{NoECN: true}, 0.5, false},
		{"CNPs not obeyed", Config{Congestion: rc.RateConfig{Ignore: true}}, 0.5, false},
	} {
		for _, read := range []bool{false, true} {
			t.Run(c.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { congestionLoop(t, c.cfg, c.mark, c.slow, read) })
			})
		}
	}
}

func congestionLoop(t *testing.T, cfg Config, mark float64, slow, read bool) {
	n := udp.NewNetwork(1)
	n.PathMTU = 9000
	var ends []*end
	for _, addr := range []string{"10.0.0.1", "10.0.0.2"} {
		cfg.Addr = netip.MustParseAddr(addr)
		cfg.Network = n
		ends = append(ends, newEnd(t, cfg))
	}
	a, b := ends[0], ends[1]
	sender, receiver := a, b
	if read {
		sender, receiver = b, a
	}
	n.SetFaults(func(from, _ netip.Addr) udp.Faults {
		f := udp.Faults{Delay: 50 * time.Microsecond}
		if from == sender.dev.Addr() {
			f.Mark = mark
		}
		return f
	})
	connect(t, a, b)
	took := moveBulk(t, a, b, read)
	time.Sleep(time.Millisecond) // for the last CNP
	out, in := sender.dev.Stats()[0], receiver.dev.Stats()[0]
	t.Logf("8 MiB in %v: %d marks, %d CNPs sent, %d received, %d reductions", took, in.CongestionMarks, in.RC.CNPsSent, out.RC.CNPsGot, out.RC.RateReductions)
	marked := mark > 0 && !cfg.NoECN
	if marked != (in.CongestionMarks > 0) || marked != (in.RC.CNPsSent > 0) || in.RC.CNPsSent != out.RC.CNPsGot || in.CongestionMarks != n.Stats().Marked {
		t.Error("marks and CNPs do not match")
	}
	if slow != (out.RC.RateReductions > 0) || slow != (took > 20*time.Millisecond) {
		t.Errorf("slowed down %d times; want %v", out.RC.RateReductions, slow)
	}
	if in.RC.CNPsSent > uint64(took/(50*time.Microsecond))+1 {
		t.Error("more than one CNP in 50 us")
	}
	finish(t, a, b)
}

// moveBulk transfers 8 MiB by WRITEs or READs of a, and returns the time it took.
func moveBulk(t *testing.T, a, b *end, read bool) time.Duration {
	start := time.Now()
	op := rdmatransport.OpWrite
	if read {
		op = rdmatransport.OpRead
	}
	const size, count = 1 << 19, 16
	for id := range uint64(count) {
		var err error
		a.do(func() {
			err = a.qp.PostSend([]rdmatransport.SendWR{{ID: id, Op: op, Flags: rdmatransport.FlagSignaled,
				SGL: a.sge(0, size), RemoteAddr: b.mr.IOVA(), RKey: b.mr.RKey()}})
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range a.want(t, count) {
		if c.Status != rdmatransport.StatusSuccess {
			t.Fatalf("%d: %v", c.ID, c.Status)
		}
	}
	return time.Since(start)
}
