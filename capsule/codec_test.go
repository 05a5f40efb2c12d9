package capsule_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/nvmeof-go/nvmeof/capsule"
)

// A codec is one structure: its length and a function that decodes and re-encodes it.
type codec struct {
	name     string
	size     int // bytes written
	min      int // bytes needed to decode
	recode   func(in, out []byte) error
	reserved bool // has bytes that decoding drops
}

// recoder combines both directions for a type whose Encode has a value or a pointer receiver.
func recoder[T any](decode func([]byte) (T, error), encode func(*T, []byte)) func(in, out []byte) error {
	return func(in, out []byte) error {
		v, err := decode(in)
		if err == nil && out != nil {
			encode(&v, out)
		}
		return err
	}
}

var codecs = []codec{
	{"command", 64, 64, recoder(capsule.DecodeCommand, (*capsule.Command).Encode), false},
	{"completion", 16, 16, recoder(capsule.DecodeCompletion, (*capsule.Completion).Encode), true},
	{"SGL", 16, 16, recoder(capsule.DecodeSGL, (*capsule.SGL).Encode), false},
	{"DSM range", 16, 16, recoder(capsule.DecodeDSMRange, (*capsule.DSMRange).Encode), false},
	{"connect data", 1024, 1024, recoder(capsule.DecodeConnectData, (*capsule.ConnectData).Encode), true},
	{"request data", 32, 32, recoder(capsule.DecodeRequestData, (*capsule.RequestData).Encode), true},
	{"accept data", 32, 32, recoder(capsule.DecodeAcceptData, (*capsule.AcceptData).Encode), true},
	{"reject data", 4, 4, recoder(capsule.DecodeRejectData, (*capsule.RejectData).Encode), false},
	{"identify controller", 4096, 4096, recoder(capsule.DecodeIdentifyController, (*capsule.IdentifyController).Encode), true},
	{"identify namespace", 4096, 4096, recoder(capsule.DecodeIdentifyNamespace, (*capsule.IdentifyNamespace).Encode), true},
	{"identify namespace, independent", 4096, 4096, recoder(capsule.DecodeIdentifyNamespaceIndependent, (*capsule.IdentifyNamespaceIndependent).Encode), true},
	{"identify namespace, NVM", 4096, 4096, recoder(capsule.DecodeIdentifyNVMNamespace, (*capsule.IdentifyNVMNamespace).Encode), true},
	{"identify controller, NVM", 4096, 4096, recoder(capsule.DecodeIdentifyNVMController, (*capsule.IdentifyNVMController).Encode), true},
	{"error log entry", 64, 64, recoder(capsule.DecodeErrorLogEntry, (*capsule.ErrorLogEntry).Encode), true},
	{"SMART log", 512, 512, recoder(capsule.DecodeSMARTLog, (*capsule.SMARTLog).Encode), true},
	{"firmware log", 512, 512, recoder(capsule.DecodeFirmwareLog, (*capsule.FirmwareLog).Encode), true},
	{"effects log", 4096, 4096, recoder(capsule.DecodeEffectsLog, (*capsule.EffectsLog).Encode), true},
	{"supported log pages", 1024, 1024, recoder(capsule.DecodeSupportedLog, (*capsule.SupportedLog).Encode), false},
	{"feature effects log", 1024, 1024, recoder(capsule.DecodeFIDEffectsLog, (*capsule.FIDEffectsLog).Encode), false},
	{"NVMe-MI effects log", 4096, 4096, recoder(capsule.DecodeMIEffectsLog, (*capsule.MIEffectsLog).Encode), true},
	{"ANA log header", 16, 16, recoder(capsule.DecodeANALogHeader, (*capsule.ANALogHeader).Encode), true},
	{"ANA descriptor", 32, 32, recoder(capsule.DecodeANADescriptor, (*capsule.ANADescriptor).Encode), true},
	{"copy range", 32, 32, recoder(capsule.DecodeCopyRange, (*capsule.CopyRange).Encode), true},
	{"reservation keys", 16, 16, recoder(capsule.DecodeReservationKeys, (*capsule.ReservationKeys).Encode), false},
	{"reservation status", 64, 64, recoder(capsule.DecodeReservationStatus, (*capsule.ReservationStatus).Encode), true},
	{"reservation registrant", 64, 64, recoder(capsule.DecodeReservationRegistrant, (*capsule.ReservationRegistrant).Encode), true},
	{"reservation log", 64, 64, recoder(capsule.DecodeReservationLog, (*capsule.ReservationLog).Encode), true},
	{"discovery header", 1024, 18, recoder(capsule.DecodeDiscoveryHeader, (*capsule.DiscoveryHeader).Encode), true},
	{"discovery entry", 1024, 1024, recoder(capsule.DecodeDiscoveryEntry, (*capsule.DiscoveryEntry).Encode), true},
}

// noise returns bytes of which no two neighbors are equal.
func noise(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i*7 + i>>8 + 1)
	}
	return b
}

func TestEveryTruncationIsRefused(t *testing.T) {
	for _, c := range codecs {
		in := noise(c.size)
		for n := range c.min {
			if err := c.recode(in[:n], nil); !errors.Is(err, capsule.ErrShort) {
				t.Errorf("%s of %d bytes: %v, want ErrShort", c.name, n, err)
				break
			}
		}
		if err := c.recode(in[:c.min], nil); err != nil {
			t.Errorf("%s of %d bytes: %v", c.name, c.min, err)
		}
	}
}

func TestEncodeWritesEveryByteAndIsAFixpoint(t *testing.T) {
	for _, c := range codecs {
		in, once, twice := noise(c.size), dirty(c.size+1), dirty(c.size)
		if err := c.recode(in, once); err != nil {
			t.Fatal(c.name, err)
		}
		if once[c.size] != 0xa5 {
			t.Errorf("%s: wrote past its end", c.name)
		}
		if err := c.recode(once[:c.size], twice); err != nil {
			t.Fatal(c.name, err)
		}
		if !bytes.Equal(once[:c.size], twice) {
			t.Errorf("%s: encoding what was decoded changes it", c.name)
		}
		for i, b := range once[:c.size] {
			switch {
			case b == in[i]:
			case !c.reserved:
				t.Fatalf("%s: byte %d changed", c.name, i)
			case b != 0 && b&^in[i] != 0:
				t.Fatalf("%s: byte %d is neither a field's nor zero: %#x from %#x", c.name, i, b, in[i])
			}
		}
	}
}

func TestCodecsDoNotAllocate(t *testing.T) {
	for _, c := range codecs {
		in, out := noise(c.size), make([]byte, c.size)
		// One allocation is that of the table, which calls a func value.
		if n := testing.AllocsPerRun(10, func() { _ = c.recode(in, out) }); n > 1 {
			t.Errorf("%s: %v allocations", c.name, n)
		}
	}
}

func TestIdentifyDoesNotAllocate(t *testing.T) {
	b := noise(capsule.IdentifySize)
	if n := testing.AllocsPerRun(10, func() {
		c, err := capsule.DecodeIdentifyController(b)
		if err != nil {
			t.Fatal(err)
		}
		c.Encode(b)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestCommandPathDoesNotAllocate(t *testing.T) {
	in, out := noise(64), make([]byte, 64)
	in[39] = 0x4f
	if n := testing.AllocsPerRun(100, func() {
		c, err := capsule.DecodeCommand(in)
		if err != nil {
			t.Fatal(err)
		}
		rw := c.ReadWrite()
		rw.SLBA++
		rw.Put(&c)
		if _, status := c.SGL.Classify(); !status.OK() {
			t.Fatal(status)
		}
		c.Encode(out)
		r := capsule.Completion{CID: c.CID, Status: capsule.StatusInvalidField | capsule.StatusDNR}
		r.Encode(out)
		var nqn capsule.NQNField
		_ = nqn.Is("nqn.2014-08.org.nvmexpress.discovery")
		_ = nqn.Check()
	}); n != 0 {
		t.Errorf("%v allocations per command", n)
	}
}

func FuzzCodecs(f *testing.F) {
	f.Add(0, noise(64))
	f.Add(5, noise(32))
	f.Add(9, noise(4096))
	f.Fuzz(func(t *testing.T, which int, in []byte) {
		c := codecs[uint(which)%uint(len(codecs))]
		once, twice := make([]byte, c.size), dirty(c.size)
		if err := c.recode(in, once); err != nil {
			if len(in) >= c.min {
				t.Fatalf("%s refused %d bytes: %v", c.name, len(in), err)
			}
			return
		}
		if err := c.recode(once, twice); err != nil || !bytes.Equal(once, twice) {
			t.Fatalf("%s: not a fixpoint: %v", c.name, err)
		}
	})
}
