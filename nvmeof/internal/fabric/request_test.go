package fabric

import (
	"net/netip"
	"testing"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

// fakeRequest is a connection request with some private data.
type fakeRequest struct {
	private  []byte
	depth    int
	rejected []byte
}

func (r *fakeRequest) PrivateData() []byte       { return r.private }
func (r *fakeRequest) LocalAddr() netip.AddrPort { return netip.AddrPort{} }
func (r *fakeRequest) RemoteAddr() netip.AddrPort {
	return netip.AddrPort{}
}
func (r *fakeRequest) InitiatorDepth() int     { return r.depth }
func (r *fakeRequest) ResponderResources() int { return 0 }
func (r *fakeRequest) Accept(rdmatransport.QueuePair, rdmatransport.ConnParams) error {
	return nil
}
func (r *fakeRequest) Reject(b []byte) error { r.rejected = append([]byte(nil), b...); return nil }

// TestCheckRequest is rows 1 to 6.
func TestCheckRequest(t *testing.T) {
	limits := Limits{IOQueues: 4}
	cases := []struct {
		name  string
		d     capsule.RequestData
		cut   int
		depth int
		want  capsule.RejectStatus
	}{
		{"admin as Linux asks", capsule.RequestData{HRQSIZE: 32, HSQSIZE: 31}, 0, 16, 0},
		{"I/O as Linux asks", capsule.RequestData{QID: 4, HRQSIZE: 128, HSQSIZE: 127, CNTLID: 1}, 0, 128, 0},
		{"I/O with a long receive queue", capsule.RequestData{QID: 1, HRQSIZE: 65535, HSQSIZE: 1}, 0, 1, 0},
		{"short private data", capsule.RequestData{}, 31, 16, capsule.RejectInvalidLength},
		{"unknown format", capsule.RequestData{RECFMT: 1, HRQSIZE: 32, HSQSIZE: 31}, 0, 16, capsule.RejectInvalidRECFMT},
		{"queue 5 of 4", capsule.RequestData{QID: 5, HRQSIZE: 32, HSQSIZE: 31}, 0, 16, capsule.RejectInvalidQID},
		{"queue 65535", capsule.RequestData{QID: 65535, HRQSIZE: 32, HSQSIZE: 31}, 0, 16, capsule.RejectInvalidQID},
		{"no submission queue", capsule.RequestData{QID: 1, HRQSIZE: 32}, 0, 16, capsule.RejectInvalidHSQSIZE},
		{"largest submission queue", capsule.RequestData{QID: 1, HRQSIZE: 32, HSQSIZE: 65535}, 0, 16, capsule.RejectInvalidHSQSIZE},
		{"I/O queue beyond our maximum", capsule.RequestData{QID: 1, HRQSIZE: 32, HSQSIZE: 128}, 0, 16, capsule.RejectInvalidHSQSIZE},
		{"admin queue of 33", capsule.RequestData{HRQSIZE: 32, HSQSIZE: 32}, 0, 16, capsule.RejectInvalidHSQSIZE},
		{"no receive queue", capsule.RequestData{HSQSIZE: 31}, 0, 16, capsule.RejectInvalidHRQSIZE},
		{"host serves no RDMA READ", capsule.RequestData{HRQSIZE: 32, HSQSIZE: 31}, 0, 0, capsule.RejectInvalidIRD},
	}
	for _, c := range cases {
		b := make([]byte, rdmatransport.MaxRequestData)
		c.d.Encode(b)
		if c.cut > 0 {
			b = b[:c.cut]
		}
		d, got := CheckRequest(&fakeRequest{private: b, depth: c.depth}, limits)
		if got != c.want {
			t.Errorf("%s: status %d, want %d", c.name, got, c.want)
		}
		if got == 0 && d != c.d {
			t.Errorf("%s: read %+v, want %+v", c.name, d, c.d)
		}
	}
	if _, s := CheckRequest(&fakeRequest{private: make([]byte, 56), depth: 1}, Limits{IOQueues: -1}); s != capsule.RejectInvalidHSQSIZE {
		t.Errorf("private data of zeroes: status %d, want %d", s, capsule.RejectInvalidHSQSIZE)
	}
}

func TestReject(t *testing.T) {
	r := &fakeRequest{}
	if err := Reject(r, capsule.RejectInvalidQID); err != nil {
		t.Fatal(err)
	}
	if string(r.rejected) != "\x00\x00\x03\x00" {
		t.Errorf("rejection data %x", r.rejected)
	}
}
