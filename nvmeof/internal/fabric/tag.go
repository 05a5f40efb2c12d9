package fabric

// A tag is the lower half of a work request ID: its kind and an index.
type tag uint32

type tagKind uint32

const (
	tagRecv tagKind = iota // index: receive
	tagRead
	tagWrite
	tagSend // index: command context, or host slot
	tagBind
	tagInvalidate
	tagCredit      // the completion only frees send queue entries
	tagInvalidMore // index: spare window
	tagProbe
)

const tagIndexBits = 28

func makeTag(k tagKind, index int32) uint32 {
	return uint32(k)<<tagIndexBits | uint32(index)
}

func (t tag) kind() tagKind { return tagKind(t >> tagIndexBits) }
func (t tag) index() int    { return int(t & (1<<tagIndexBits - 1)) }
