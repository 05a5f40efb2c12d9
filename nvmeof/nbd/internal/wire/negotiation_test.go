package wire

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"strings"
	"testing"
)

// shelf is a catalog of two exports, of which "broken" cannot be opened.
type shelf struct{ opened []string }

func (s *shelf) Names() []string { return []string{"1", "broken"} }

func (s *shelf) Find(name string) (Export, bool) {
	e := Export{
		Name: name, Description: "a disk", Size: 64 << 20, Flags: 0x9ed,
		MinBlock: 512, PreferredBlock: 4096, MaxBlock: 32 << 20,
	}
	if name == "" {
		e.Name = "1"
	}
	return e, e.Name == "1" || name == "broken"
}

func (s *shelf) Open(name string) (Export, error) {
	s.opened = append(s.opened, name)
	if name == "broken" {
		return Export{}, errors.New("it is broken")
	}
	e, _ := s.Find(name)
	return e, nil
}

func option(o Option, data string) string {
	b := binary.BigEndian.AppendUint64(nil, magicOption)
	b = binary.BigEndian.AppendUint32(b, uint32(o))
	b = binary.BigEndian.AppendUint32(b, uint32(len(data)))
	return string(b) + data
}

// goData returns the data of INFO and GO.
func goData(name string, infos ...InfoType) string {
	b := binary.BigEndian.AppendUint32(nil, uint32(len(name)))
	b = append(b, name...)
	b = binary.BigEndian.AppendUint16(b, uint16(len(infos)))
	for _, t := range infos {
		b = binary.BigEndian.AppendUint16(b, uint16(t))
	}
	return string(b)
}

const hello = "\x00\x00\x00\x03"

// replyTypes returns the replies to options in b, with their texts.
func replyTypes(t *testing.T, b []byte) (types []OptionReply, texts string) {
	t.Helper()
	for len(b) > 0 {
		if len(b) < 20 || binary.BigEndian.Uint64(b) != magicOptionReply {
			t.Fatalf("%x is no reply", b)
		}
		n := binary.BigEndian.Uint32(b[16:])
		types = append(types, OptionReply(binary.BigEndian.Uint32(b[12:])))
		texts += string(b[20:][:n])
		b = b[20+n:]
	}
	return types, texts
}

func TestOptions(t *testing.T) {
	for _, c := range []struct {
		name, in string
		want     []OptionReply
		state    State
		text     string // in the replies
		err      string
	}{
		{"list", option(OptList, ""), []OptionReply{RepServer, RepServer, RepAck}, Talking, "broken", ""},
		{"list with data", option(OptList, "x"), []OptionReply{RepErrInvalid}, Talking, "", ""},
		{"abort", option(OptAbort, ""), []OptionReply{RepAck}, Ended, "", ""},
		{"abort, and more", option(OptAbort, "why") + "garbage", []OptionReply{RepAck}, Ended, "", ""},
		{"structured", option(OptStructuredReply, ""), []OptionReply{RepAck}, Talking, "", ""},
		{"structured with data", option(OptStructuredReply, "x"), []OptionReply{RepErrInvalid}, Talking, "", ""},
		{"TLS", option(5, ""), []OptionReply{RepErrUnsup}, Talking, "not supported", ""},
		{"meta context", option(OptSetMetaContext, "whatever"), []OptionReply{RepErrInvalid}, Talking, "STRUCTURED_REPLY first", ""},
		{"extended headers", option(11, ""), []OptionReply{RepErrUnsup}, Talking, "", ""},
		{"unknown", option(1<<31, "data"), []OptionReply{RepErrUnsup}, Talking, "", ""},
		{"go", option(OptGo, goData("1")), []OptionReply{RepInfo, RepInfo, RepAck}, Agreed, "", ""},
		{"go, all", option(OptGo, goData("", InfoName, InfoDescription, InfoBlockSize, 99)), []OptionReply{RepInfo, RepInfo, RepInfo, RepInfo, RepAck}, Agreed, "a disk", ""},
		{"info", option(OptInfo, goData("1", InfoName)), []OptionReply{RepInfo, RepInfo, RepInfo, RepAck}, Talking, "", ""},
		{"go, unknown", option(OptGo, goData("2")), []OptionReply{RepErrUnknown}, Talking, "", ""},
		{"go, broken", option(OptGo, goData("broken")), []OptionReply{RepErrShutdown}, Talking, "it is broken", ""},
		{"go without data", option(OptGo, ""), []OptionReply{RepErrInvalid}, Talking, "", ""},
		{"go with a long name", option(OptGo, "\xff\xff\xff\xff1\x00\x00"), []OptionReply{RepErrInvalid}, Talking, "", ""},
		{"go with too few infos", option(OptGo, "\x00\x00\x00\x011\x00\x02\x00\x03"), []OptionReply{RepErrInvalid}, Talking, "", ""},
		{"go with bytes behind", option(OptGo, goData("1")+"x"), []OptionReply{RepErrInvalid}, Talking, "", ""},
		{"too long", option(OptList, strings.Repeat("x", maxOption+1)) + option(OptAbort, ""), []OptionReply{RepErrTooBig, RepAck}, Ended, "too long", ""},
		{"far too long", option(OptList, strings.Repeat("x", maxSkip+1)), nil, Talking, "", "has 1048577 bytes"},
		{"export name, unknown", option(OptExportName, "2"), nil, Talking, "", `no export "2"`},
		{"export name, broken", option(OptExportName, "broken"), nil, Talking, "", "it is broken"},
		{"export name, too long", option(OptExportName, strings.Repeat("x", maxOption+1)), nil, Talking, "", "bytes"},
		{"no option", strings.Repeat("x", 16), nil, Talking, "", "magic"},
		{"a flood", strings.Repeat(option(OptStructuredReply, ""), maxOptions+1), nil, Talking, "", "more than 256 options"},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := NewNegotiation(&shelf{})
			_, out, err := n.Feed([]byte(hello+c.in), nil)
			if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Fatalf("%v, want %q", err, c.err)
			}
			if err != nil {
				return
			}
			types, texts := replyTypes(t, out)
			if len(types) != len(c.want) || n.State() != c.state || !strings.Contains(texts, c.text) {
				t.Fatalf("%x in state %d (%q), want %x in %d (%q)", types, n.State(), texts, c.want, c.state, c.text)
			}
			for i := range types {
				if types[i] != c.want[i] {
					t.Errorf("reply %d is %#x, want %#x", i, types[i], c.want[i])
				}
			}
		})
	}
}

func TestFlags(t *testing.T) {
	n := NewNegotiation(&shelf{})
	if _, _, err := n.Feed([]byte{0, 0, 0, 4}, nil); err == nil {
		t.Error("unknown flags were taken")
	}
}

// TestExportName: the old way to choose an export, with padding and without.
func TestExportName(t *testing.T) {
	for flags, padding := range map[string]int{"\x00\x00\x00\x01": 124, hello: 0} {
		n := NewNegotiation(&shelf{})
		_, out, err := n.Feed([]byte(flags+option(OptExportName, "")+"rest"), nil)
		want := append([]byte{0, 0, 0, 0, 4, 0, 0, 0, 9, 0xed}, make([]byte, padding)...)
		if err != nil || !bytes.Equal(out, want) || n.State() != Agreed || n.BlockSize || n.Export.Name != "1" {
			t.Errorf("%x, %v, want %x", out, err, want)
		}
	}
}

// What qemu 10 sent and accepted: structured replies, a meta context, GO.
const (
	qemuSays = "00000003" + "49484156454f5054" + "00000008" + "00000000" +
		"49484156454f5054" + "0000000a" + "0000001c" + "0000000131000000010000000f626173653a616c6c6f636174696f6e" +
		"49484156454f5054" + "00000007" + "00000009" + "000000013100010003"
	qemuHears = "4e42444d41474943" + "49484156454f5054" + "0003" +
		"0003e889045565a9" + "00000008" + "00000001" + "00000000" +
		"0003e889045565a9" + "0000000a" + "00000004" + "00000013" + "00000001" + "626173653a616c6c6f636174696f6e" +
		"0003e889045565a9" + "0000000a" + "00000001" + "00000000" +
		"0003e889045565a9" + "00000007" + "00000003" + "0000000c" + "0000" + "0000000004000000" + "09ed" +
		"0003e889045565a9" + "00000007" + "00000003" + "0000000e" + "0003" + "00000200" + "00001000" + "02000000" +
		"0003e889045565a9" + "00000007" + "00000001" + "00000000"
)

func unhex(t testing.TB, s string) []byte {
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestGoldenHandshake checks it, with the bytes arriving in any pieces.
func TestGoldenHandshake(t *testing.T) {
	says, hears := unhex(t, qemuSays), unhex(t, qemuHears)
	for _, step := range []int{1, 3, 17, len(says)} {
		n := NewNegotiation(&shelf{})
		out := n.Greeting(nil)
		var in []byte
		for at := 0; at < len(says); at += step {
			in = append(in, says[at:min(at+step, len(says))]...)
			used, more, err := n.Feed(in, out)
			if err != nil {
				t.Fatal(err)
			}
			in, out = in[used:], more
		}
		if !bytes.Equal(out, hears) || len(in) > 0 {
			t.Errorf("in steps of %d: %x, want %x", step, out, hears)
		}
		if n.State() != Agreed || !n.Structured || !n.BlockSize || !n.Allocation {
			t.Errorf("agreed on %+v", n)
		}
	}
}

// FuzzNegotiation: whatever a client sends, and in whatever pieces, the answer is the same, and its length is bounded.
func FuzzNegotiation(f *testing.F) {
	f.Add(unhex(f, qemuSays), uint8(3))
	f.Add([]byte(hello+option(OptExportName, "1")), uint8(1))
	f.Add([]byte(hello+option(OptGo, goData("broken"))+option(OptAbort, "")), uint8(9))
	f.Add([]byte(hello+option(OptList, strings.Repeat("x", maxOption+1))), uint8(200))
	f.Fuzz(func(t *testing.T, says []byte, step uint8) {
		whole := NewNegotiation(&shelf{})
		usedWhole, want, errWhole := whole.Feed(says, nil)
		n := NewNegotiation(&shelf{})
		var in, out []byte
		var err error
		total := 0
		for at := 0; at < len(says) && err == nil; at += int(step) + 1 {
			in = append(in, says[at:min(at+int(step)+1, len(says))]...)
			var used int
			used, out, err = n.Feed(in, out)
			in, total = in[used:], total+used
		}
		if (err == nil) != (errWhole == nil) || !bytes.Equal(out, want) || err == nil && total != usedWhole || n.State() != whole.State() {
			t.Fatalf("at once: %d bytes, %x, %v; in steps: %d bytes, %x, %v", usedWhole, want, errWhole, total, out, err)
		}
		if len(out) > 200*(maxOptions+1) {
			t.Fatalf("%d bytes of answers", len(out))
		}
	})
}
