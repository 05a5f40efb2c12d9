package wire

import "testing"

// FuzzReply: a client decodes replies from what has arrived of them so far, and each decodes to what was encoded.
func FuzzReply(f *testing.F) {
	for _, c := range []Command{CmdRead, CmdWrite, CmdBlockStatus} {
		for _, structured := range []bool{false, true} {
			for _, e := range []Errno{OK, EINVAL} {
				f.Add(AppendReply(nil, &Request{Command: c, Cookie: 7, Offset: 1 << 40, Length: 4096}, structured, e, 4096), uint16(c), uint64(5), uint64(512), uint32(512), structured, uint32(e))
			}
		}
	}
	f.Fuzz(func(t *testing.T, b []byte, command uint16, cookie, offset uint64, length uint32, structured bool, errno uint32) {
		r, n, err := DecodeReply(b)
		if n > len(b) || r.Length < 0 || err != nil && n != 0 {
			t.Fatalf("%d of %d bytes: %+v, %v", n, len(b), r, err)
		}
		if err == nil && n > 0 {
			for short := range n { // a prefix is not decoded as something else
				if early, m, err := DecodeReply(b[:short]); m != 0 || err != nil {
					t.Fatalf("of %d bytes %d make %+v, %v", n, short, early, err)
				}
			}
		}
		q := Request{Command: Command(command % 8), Cookie: Cookie(cookie), Offset: offset, Length: length % (1 << 25)}
		text := AppendReply(nil, &q, structured, Errno(errno), int(q.Length))
		r, n, err = DecodeReply(text)
		if len(text) > MaxReplyHead || err != nil || n != len(text) || r.Cookie != q.Cookie || r.Err != Errno(errno) {
			t.Fatalf("the reply %x is %+v, %d bytes, %v", text, r, n, err)
		}
	})
}

// FuzzQueries: a valid query list is consumed exactly, and has no more names than fit into it.
func FuzzQueries(f *testing.F) {
	f.Add([]byte("\x00\x00\x00\x011\x00\x00\x00\x01\x00\x00\x00\x0fbase:allocation"))
	f.Add([]byte("\x00\x00\x00\x00\xff\xff\xff\xff\x00\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, b []byte) {
		name, queries, ok := parseQueries(b)
		size := 8 + len(name)
		for _, q := range queries {
			size += 4 + len(q)
		}
		if ok && size != len(b) || len(queries) > len(b)/4 {
			t.Fatalf("%d bytes are %q and %q", len(b), name, queries)
		}
	})
}
