package wire

import (
	"bytes"
	"encoding/hex"
	"testing"
)

// The packet that NVIDIA documents as an example of a CNP, without its ICRC
// ("RoCEv2 CNP Packet Format Example").
const documentedCNP = "8100ffff400000d200000000" + "00000000000000000000000000000000"

func TestCNP(t *testing.T) {
	want, err := hex.DecodeString(documentedCNP)
	if err != nil {
		t.Fatal(err)
	}
	got := AppendCNP(nil, &Packet{DestQPN: 0xd2, PKey: DefaultPKey, PSN: 99, AckReq: true, Solicited: true})
	if !bytes.Equal(got, want) {
		t.Fatalf("emitted %x\n   want %x", got, want)
	}
	var p Packet
	if f := Parse(append(got, 0xe4, 0x2d, 0xad, 0x81), &p); f != OK {
		t.Fatal(f)
	}
	if p.Opcode != CNP || !p.BECN || p.FECN || p.DestQPN != 0xd2 || p.PSN != 0 || p.AckReq || p.PKey != DefaultPKey {
		t.Errorf("%+v", p)
	}
	if len(p.Payload) != CNPReserved || p.Opcode.IsRC() {
		t.Errorf("%d reserved bytes; RC %v", len(p.Payload), p.Opcode.IsRC())
	}
	if n := testing.AllocsPerRun(100, func() { got = AppendCNP(got[:0], &p) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
