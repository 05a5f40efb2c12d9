package wire

import (
	"encoding/binary"
	"slices"
)

// The only metadata context that the server supports ["base:allocation metadata context"], and its identifier in
// replies.
const (
	allocation   = "base:allocation"
	allocationID = 1
)

// contexts answers LIST_META_CONTEXT and SET_META_CONTEXT ["Metadata querying"]. The latter's selection is for one
// export, and replaces any earlier selection.
func (n *Negotiation) contexts(option Option, data, out []byte) []byte {
	set := option == OptSetMetaContext
	if set {
		n.selected = nil
	}
	if !n.Structured {
		return appendText(out, option, RepErrInvalid, "ask for STRUCTURED_REPLY first")
	}
	name, queries, ok := parseQueries(data)
	if !ok {
		return appendText(out, option, RepErrInvalid, errInfo.Error())
	}
	e, ok := n.catalog.Find(name)
	if !ok {
		return appendText(out, option, RepErrUnknown, "no such export")
	}
	id := uint32(0)
	wanted := slices.Contains(queries, allocation)
	if set {
		id = allocationID
	} else {
		wanted = wanted || len(queries) == 0 || slices.Contains(queries, "base:")
	}
	if wanted {
		out = appendOptionReply(out, option, RepMetaContext, append(binary.BigEndian.AppendUint32(nil, id), allocation...))
	}
	if wanted && set {
		n.selected = &e.Name
	}
	return appendOptionReply(out, option, RepAck, nil)
}

// parseQueries decodes the name of an export and the names of contexts.
func parseQueries(b []byte) (name string, queries []string, ok bool) {
	take := func() (s string) {
		if len(b) < 4 {
			ok = false
			return ""
		}
		length := binary.BigEndian.Uint32(b)
		if length > maxName || int(length) > len(b)-4 {
			ok = false
			return ""
		}
		s, b = string(b[4:][:length]), b[4+length:]
		return s
	}
	ok = true
	name = take()
	if !ok || len(b) < 4 {
		return "", nil, false
	}
	count := binary.BigEndian.Uint32(b)
	b = b[4:]
	for ; count > 0 && ok; count-- {
		queries = append(queries, take())
	}
	return name, queries, ok && len(b) == 0
}
