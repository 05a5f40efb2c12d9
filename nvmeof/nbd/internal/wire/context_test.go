package wire

import (
	"encoding/binary"
	"slices"
	"testing"
)

// contextData returns the data of LIST_META_CONTEXT and SET_META_CONTEXT.
func contextData(name string, queries ...string) string {
	b := append(binary.BigEndian.AppendUint32(nil, uint32(len(name))), name...)
	b = binary.BigEndian.AppendUint32(b, uint32(len(queries)))
	for _, q := range queries {
		b = append(binary.BigEndian.AppendUint32(b, uint32(len(q))), q...)
	}
	return string(b)
}

func TestMetaContexts(t *testing.T) {
	structured := option(OptStructuredReply, "")
	set := func(name string, queries ...string) string {
		return option(OptSetMetaContext, contextData(name, queries...))
	}
	list := func(name string, queries ...string) string {
		return option(OptListMetaContext, contextData(name, queries...))
	}
	enter := option(OptGo, goData("1"))
	ack, one := RepAck, RepMetaContext
	entered := []OptionReply{RepInfo, RepInfo, RepAck}
	for _, c := range []struct {
		name, in string
		want     []OptionReply // after that of STRUCTURED_REPLY
		selected bool
	}{
		{"set", set("1", "qemu:dirty-bitmap:b", "base:allocation") + enter, append([]OptionReply{one, ack}, entered...), true},
		{"set for the default", set("", "base:allocation") + enter, append([]OptionReply{one, ack}, entered...), true},
		{"set nothing", set("1") + enter, append([]OptionReply{ack}, entered...), false},
		{"set by a prefix", set("1", "base:") + enter, append([]OptionReply{ack}, entered...), false},
		{"set, then nothing", set("1", "base:allocation") + set("1", "other:x") + enter, append([]OptionReply{one, ack, ack}, entered...), false},
		{"set, then wrong", set("1", "base:allocation") + option(OptSetMetaContext, "x") + enter, append([]OptionReply{one, ack, RepErrInvalid}, entered...), false},
		{"set for another", set("broken", "base:allocation") + enter, append([]OptionReply{one, ack}, entered...), false},
		{"set for none", set("2", "base:allocation") + enter, append([]OptionReply{RepErrUnknown}, entered...), false},
		{"list all", list("1") + enter, append([]OptionReply{one, ack}, entered...), false},
		{"list by a prefix", list("1", "base:"), []OptionReply{one, ack}, false},
		{"list by name", list("1", "base:allocation", "base:allocation"), []OptionReply{one, ack}, false},
		{"list others", list("1", "qemu:"), []OptionReply{ack}, false},
		{"no count", option(OptSetMetaContext, contextData("1")[:5]), []OptionReply{RepErrInvalid}, false},
		{"too few", option(OptSetMetaContext, contextData("1", "base:allocation")[:12]), []OptionReply{RepErrInvalid}, false},
		{"too many", option(OptSetMetaContext, contextData("1", "base:allocation")+"x"), []OptionReply{RepErrInvalid}, false},
		{"a count of 2^32-1", option(OptListMetaContext, contextData("1")[:5]+"\xff\xff\xff\xff"), []OptionReply{RepErrInvalid}, false},
		{"a long name", option(OptListMetaContext, "\xff\xff\xff\xff"), []OptionReply{RepErrInvalid}, false},
	} {
		n := NewNegotiation(&shelf{})
		_, out, err := n.Feed([]byte(hello+structured+c.in), nil)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		types, _ := replyTypes(t, out)
		if want := append([]OptionReply{ack}, c.want...); !slices.Equal(types, want) || n.Allocation != c.selected {
			t.Errorf("%s: %x, selected %v; want %x, %v", c.name, types, n.Allocation, want, c.selected)
		}
	}
	n := NewNegotiation(&shelf{})
	_, out, _ := n.Feed([]byte(hello+set("1", "base:allocation")+enter), nil)
	if types, _ := replyTypes(t, out); types[0] != RepErrInvalid || n.Allocation {
		t.Errorf("without structured replies: %x", types)
	}
}

// TestBlockStatusReply: an encoded reply is decoded again, and has the bytes of the protocol.
func TestBlockStatusReply(t *testing.T) {
	r := Request{Command: CmdBlockStatus, Cookie: 7, Offset: 4096, Length: 8192}
	b := AppendReply(nil, &r, true, OK, 0)
	if len(b) > MaxReplyHead || string(b[20:]) != "\x00\x00\x00\x01\x00\x00\x20\x00\x00\x00\x00\x00" {
		t.Errorf("%x", b)
	}
	for n := range b {
		if _, used, err := DecodeReply(b[:n]); used != 0 || err != nil {
			t.Fatalf("%d bytes are a reply (%v)", n, err)
		}
	}
	if got, n, err := DecodeReply(b); err != nil || n != len(b) || got.Cookie != 7 || got.Extent != (Extent{Length: 8192}) {
		t.Errorf("%+v, %d bytes, %v", got, n, err)
	}
	if got, _, err := DecodeReply(AppendReply(nil, &r, true, EINVAL, 0)); err != nil || got.Err != EINVAL {
		t.Errorf("%+v, %v", got, err)
	}
}
