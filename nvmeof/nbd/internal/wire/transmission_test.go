package wire

import (
	"bytes"
	"errors"
	"testing"
)

// TestGoldenRequests decodes what qemu-io sent.
func TestGoldenRequests(t *testing.T) {
	for text, want := range map[string]Request{
		"25609513" + "0001" + "0001" + "0000562f0059b030" + "0000000000001000" + "00000200": {FlagFUA, CmdWrite, 0x562f0059b030, 4096, 512},
		"25609513" + "0000" + "0000" + "0000562f0059b030" + "0000000000001000" + "00000200": {0, CmdRead, 0x562f0059b030, 4096, 512},
		"25609513" + "0003" + "0006" + "0000562f0059b030" + "0000000000000000" + "00001000": {FlagFUA | FlagNoHole, CmdWriteZeroes, 0x562f0059b030, 0, 4096},
		"25609513" + "0000" + "0004" + "0000562f0059b030" + "0000000000002000" + "00001000": {0, CmdTrim, 0x562f0059b030, 8192, 4096},
		"25609513" + "0000" + "0003" + "0000562f0059b030" + "0000000000000000" + "00000000": {0, CmdFlush, 0x562f0059b030, 0, 0},
		"25609513" + "0000" + "0002" + "0000000000000000" + "0000000000000000" + "00000000": {Command: CmdDisc},
	} {
		b := unhex(t, text)
		got, err := DecodeRequest(b)
		if err != nil || got != want {
			t.Errorf("%s: %+v, %v; want %+v", text, got, err, want)
		}
		if again := AppendRequest(nil, want); !bytes.Equal(again, b) {
			t.Errorf("%+v: %x, want %s", want, again, text)
		}
	}
	if _, err := DecodeRequest(make([]byte, RequestSize)); !errors.Is(err, ErrMagic) {
		t.Errorf("zeroes: %v", err)
	}
}

// TestGoldenReplies encodes what qemu-io accepted, and errors from the protocol's tables.
func TestGoldenReplies(t *testing.T) {
	read, write := Request{Command: CmdRead, Cookie: 0x562f0059b030, Offset: 4096, Length: 512}, Request{Command: CmdWrite, Cookie: 7}
	for _, c := range []struct {
		name       string
		r          Request
		structured bool
		err        Errno
		n          int
		want       string
	}{
		{"read", read, true, OK, 512, "668e33ef" + "0001" + "0001" + "0000562f0059b030" + "00000208" + "0000000000001000"},
		{"read, simple", read, false, OK, 512, "67446698" + "00000000" + "0000562f0059b030"},
		{"read failed", read, true, EIO, 0, "668e33ef" + "0001" + "8001" + "0000562f0059b030" + "00000006" + "00000005" + "0000"},
		{"read failed, simple", read, false, EIO, 0, "67446698" + "00000005" + "0000562f0059b030"},
		{"write", write, true, OK, 0, "67446698" + "00000000" + "0000000000000007"},
		{"write failed", write, true, ENOSPC, 0, "67446698" + "0000001c" + "0000000000000007"},
	} {
		got := AppendReply(nil, &c.r, c.structured, c.err, c.n)
		if !bytes.Equal(got, unhex(t, c.want)) || len(got) > MaxReplyHead {
			t.Errorf("%s: %x, want %s", c.name, got, c.want)
		}
		reply, n, err := DecodeReply(got)
		if err != nil || n != len(got) || reply.Cookie != c.r.Cookie || reply.Err != c.err {
			t.Errorf("%s: read as %+v, %d, %v", c.name, reply, n, err)
		}
	}
}

func TestCheck(t *testing.T) {
	l := Limits{Size: 1 << 30, Block: 4096, MaxPayload: 32 << 20}
	for _, c := range []struct {
		name string
		r    Request
		want Errno
	}{
		{"read", Request{Command: CmdRead, Length: 4096}, OK},
		{"the last block", Request{Command: CmdRead, Offset: 1<<30 - 4096, Length: 4096, Flags: FlagDF}, OK},
		{"behind it", Request{Command: CmdRead, Offset: 1 << 30, Length: 4096}, EINVAL},
		{"across it", Request{Command: CmdWrite, Offset: 1<<30 - 4096, Length: 8192}, ENOSPC},
		{"far behind", Request{Command: CmdWrite, Offset: 1<<63 - 4096, Length: 8192}, ENOSPC},
		{"at 2^63", Request{Command: CmdRead, Offset: 1 << 63, Length: 4096}, EINVAL},
		{"that wraps", Request{Command: CmdRead, Offset: 1<<64 - 4096, Length: 8192}, EINVAL},
		{"trim behind", Request{Command: CmdTrim, Offset: 1 << 30, Length: 4096}, EINVAL},
		{"zeroes behind", Request{Command: CmdWriteZeroes, Offset: 1 << 30, Length: 4096}, ENOSPC},
		{"nothing", Request{Command: CmdRead}, EINVAL},
		{"offset", Request{Command: CmdRead, Offset: 512, Length: 4096}, EINVAL},
		{"length", Request{Command: CmdWrite, Length: 4097}, EINVAL},
		{"too much", Request{Command: CmdRead, Length: 32<<20 + 4096}, EINVAL},
		{"too much, DF", Request{Command: CmdRead, Length: 32<<20 + 4096, Flags: FlagDF}, EOVERFLOW},
		{"much to zero", Request{Command: CmdWriteZeroes, Length: 1 << 30}, OK},
		{"flush with a range", Request{Command: CmdFlush, Offset: 1 << 63, Length: 5}, OK},
		{"command 5", Request{Command: 5, Length: 4096}, EINVAL},
		{"block status", Request{Command: 7, Length: 4096}, EINVAL},
		{"command 65535", Request{Command: 65535, Length: 4096}, EINVAL},
		{"DF of a write", Request{Command: CmdWrite, Length: 4096, Flags: FlagDF}, EINVAL},
		{"unknown flag", Request{Command: CmdRead, Length: 4096, Flags: 1 << 15}, EINVAL},
		{"payload length", Request{Command: CmdWrite, Length: 4096, Flags: 1 << 5}, EINVAL},
		{"FUA of a read", Request{Command: CmdRead, Length: 4096, Flags: FlagFUA}, OK},
	} {
		if got := l.Check(&c.r); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
	l.ReadOnly = true
	for command, want := range map[Command]Errno{CmdRead: OK, CmdFlush: OK, CmdWrite: EPERM, CmdTrim: EPERM, CmdWriteZeroes: EPERM} {
		if got := l.Check(&Request{Command: command, Length: 4096}); got != want {
			t.Errorf("read-only: %v of %v, want %v", got, command, want)
		}
	}
}

// FuzzRequest: a request that passes the check is within the disk.
func FuzzRequest(f *testing.F) {
	f.Add(unhex(f, "25609513000100010000562f0059b030000000000000100000000200"), uint64(1<<20))
	f.Add(unhex(f, "256095130001000400000000000000007fffffffffffffffffffffff"), uint64(1<<63-1))
	f.Fuzz(func(t *testing.T, b []byte, size uint64) {
		if len(b) < RequestSize {
			return
		}
		r, err := DecodeRequest(b)
		if err != nil {
			return
		}
		if again := AppendRequest(nil, r); !bytes.Equal(again, b[:RequestSize]) {
			t.Fatalf("%x became %x", b[:RequestSize], again)
		}
		l := Limits{Size: size, Block: 512, MaxPayload: 1 << 20}
		if l.Check(&r) != OK || r.Command == CmdFlush || r.Command == CmdDisc {
			return
		}
		end := r.Offset + uint64(r.Length)
		if end < r.Offset || end > size || int64(end) < 0 || (r.Offset|uint64(r.Length))%512 != 0 || r.Payload() > 1<<20 {
			t.Fatalf("%+v of %d bytes passed", r, size)
		}
	})
}
