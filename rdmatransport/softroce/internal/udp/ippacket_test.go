package udp

import (
	"bytes"
	"testing"

	"github.com/nvmeof-go/nvmeof/test/golden"
)

// TestAppendPacket: the headers are those made by Linux, except for the IPv6 flow label and the UDP checksum, which
// rxe does not compute.
func TestAppendPacket(t *testing.T) {
	for _, name := range []string{"nvme-connect", "nvme-ipv6"} {
		packets, err := golden.Load(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range packets {
			tos, at := p.IP[1], 20
			if p.Src.Addr().Is6() {
				tos, at = p.IP[0]<<4|p.IP[1]>>4, 40
				p.IP[1], p.IP[2], p.IP[3] = p.IP[1]&0xf0, 0, 0
			}
			got := AppendPacket(nil, p.Src, p.Dst, tos, p.ID, p.Payload, len(p.Payload))
			cut := AppendPacket(nil, p.Src, p.Dst, tos, p.ID, p.Payload[:12], len(p.Payload))
			if sum := got[at+6 : at+8]; p.IP[at+6] == 0 && p.IP[at+7] == 0 {
				sum[0], sum[1] = 0, 0
			}
			if !bytes.Equal(got, p.IP) || !bytes.Equal(cut, append(got[:at+6:at+6], append([]byte{0, 0}, got[at+8:at+8+12]...)...)) {
				t.Fatalf("%s, frame %d: %x, want %x", name, p.Number, got[:at+20], p.IP[:at+20])
			}
		}
	}
}
