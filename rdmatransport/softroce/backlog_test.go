package softroce

import (
	"net/netip"
	"testing"

	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce/internal/cm"
)

// TestBacklogIsShared is row 110: requests of one address do not crowd out those of another,
// whichever come first.
func TestBacklogIsShared(t *testing.T) {
	request := func(from string) *connRequest {
		return &connRequest{peer: cm.Peer{Addr: netip.AddrPortFrom(netip.MustParseAddr(from), 1)}}
	}
	b := backlog{ready: make(chan struct{}, 1)}
	honest := []*connRequest{request("192.0.2.1"), request("2001:db8::1")}
	b.put(honest[0])
	dropped := 0
	for i := range 5000 {
		from := []string{"192.0.2.66", "2001:db8:6::1", "2001:db8:6::2"}[i%3]
		if out := b.put(request(from)); out != nil {
			dropped++
			if out == honest[0] || !out.answered.Load() {
				t.Fatal("the only request of an address was dropped, or one that can still be accepted")
			}
		}
	}
	if out := b.put(honest[1]); out == nil || out == honest[0] {
		t.Error("a newcomer does not make room among those who have most")
	}
	if want := 5001 - maxBacklog; dropped != want {
		t.Errorf("%d were dropped, want %d", dropped, want)
	}
	var got []*connRequest
	for r := b.take(); r != nil; r = b.take() {
		got = append(got, r)
	}
	if len(got) != maxBacklog || got[0] != honest[0] || got[len(got)-1] != honest[1] {
		t.Errorf("%d requests, or not in order", len(got))
	}
}
