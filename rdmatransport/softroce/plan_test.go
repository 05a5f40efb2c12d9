package softroce

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce/internal/rc"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce/internal/wire"
)

// TestPlan: which packets share a send. A packet is a letter for its queue pair and a size. Lower and upper case are
// different routes, which do not mix.
func TestPlan(t *testing.T) {
	tests := []struct{ name, packets, want string }{
		{"one queue pair, equal", "a9 a9 a9", "[a9 a9 a9]"},
		{"a shorter one ends the message", "a9 a9 a5 a9", "[a9 a9 a5] [a9]"},
		{"a longer one does not fit", "a5 a9 a9", "[a5] [a9 a9]"},
		{"two queue pairs", "a9 a5 b9 b5", "[a9 b9] [a5 b5]"},
		{"their order stays", "a5 a9 b9 b5", "[a5] [a9 b9] [b5]"},
		{"also where an earlier message has room", "a9 a5 a9 b9", "[a9] [a5] [a9 b9]"},
		{"routes stay apart", "a9 B9 a9 B9", "[a9 a9] [B9 B9]"},
	}
	for _, test := range tests {
		var p plan
		p.init(boxPackets)
		for range 2 { // a plan leaves no state behind
			if got := showPlan(&p, test.packets, true); got != test.want {
				t.Errorf("%s: %s\n got %s\nwant %s", test.name, test.packets, got, test.want)
			}
		}
	}
	var p plan
	p.init(boxPackets)
	if got := showPlan(&p, "a9 a9", false); got != "[a9] [a9]" {
		t.Errorf("without segmentation: %s", got)
	}
}

// TestPlanManyConnections: data and a response of each of 17 queue pairs take as many sends as two datagrams of data
// and one of responses, and data is sent before the response of its own queue pair.
func TestPlanManyConnections(t *testing.T) {
	var packets []string
	for q := byte('a'); q <= 'q'; q++ {
		packets = append(packets, fmt.Sprintf("%c4124 %c36", q, q))
	}
	var p plan
	p.init(boxPackets)
	got := showPlan(&p, strings.Join(packets, " "), true)
	if n := strings.Count(got, "["); n > 4 {
		t.Errorf("%d sends: %s", n, got)
	}
	for q := byte('a'); q <= 'q'; q++ {
		data, response := strings.Index(got, fmt.Sprintf("%c4124", q)), strings.Index(got, fmt.Sprintf("%c36", q))
		if data < 0 || response < data {
			t.Errorf("%c: response before data: %s", q, got)
		}
	}
}

// showPlan formats the plan of packets.
func showPlan(p *plan, packets string, segments bool) string {
	qps := map[byte]*queuePair{}
	var owners []*queuePair
	var pkts []rc.Out
	names := strings.Fields(packets)
	for _, s := range names {
		var n int
		fmt.Sscan(s[1:], &n)
		q := qps[s[0]]
		if q == nil {
			q = &queuePair{route: route{to: netip.MustParseAddrPort("192.0.2.1:4791"), lane: s[0] >> 5}}
			qps[s[0]] = q
		}
		owners = append(owners, q)
		pkts = append(pkts, rc.Out{Length: uint16(n - wire.ICRCSize)})
	}
	var out []string
	for _, m := range p.make(owners, pkts, segments) {
		var list []string
		for i := m.first; i >= 0; i = p.next[i] {
			list = append(list, names[i])
		}
		if len(list) != m.count {
			return fmt.Sprintf("%d packets linked, %d counted", len(list), m.count)
		}
		out = append(out, "["+strings.Join(list, " ")+"]")
	}
	return strings.Join(out, " ")
}
