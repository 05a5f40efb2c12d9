package host

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/internal/fabric"
	"github.com/nvmeof-go/nvmeof/nvmeof/target"
)

// A resizable store has a settable part of another one.
type resizable struct {
	backend.Store
	size atomic.Int64
}

func (r *resizable) Info() backend.Info {
	info := r.Store.Info()
	info.Size = r.size.Load()
	return info
}

// TestRefresh: a namespace gets its new size, fails when it is removed, and is not replaced by another one with its
// identifier.
func TestRefresh(t *testing.T) {
	other := newStore(t, 1<<20, 512) // closed after the target
	store := &resizable{Store: newStore(t, 1<<20, 512)}
	store.size.Store(1 << 19)
	r := newRig(t, rigConfig{stores: []backend.Store{store}})
	n := r.namespace(r.connect(r.options()))
	block := make([]byte, 512)
	if _, err := n.WriteAt(block, 1<<19); !errors.Is(err, ErrOutOfRange) {
		t.Errorf("beyond the end: %v", err)
	}
	store.size.Store(1 << 20)
	r.target.Revalidate()
	if changed, err := n.Refresh(); !changed || err != nil || n.Size() != 1<<20 {
		t.Errorf("%v, %v, %d bytes", changed, err, n.Size())
	}
	if _, err := n.WriteAt(block, 1<<19); err != nil {
		t.Error(err)
	}
	before := n.Identify()
	if err := r.sub.Namespaces()[0].SetGroup(7); err != nil {
		t.Fatal(err)
	}
	if _, err := n.Refresh(); err != nil || n.Identify().ANAGRPID != 7 || before.ANAGRPID != 1 {
		t.Errorf("moved to another ANA group: %v; %d, before %d", err, n.Identify().ANAGRPID, before.ANAGRPID)
	}
	if err := r.sub.RemoveNamespace(1); err != nil {
		t.Fatal(err)
	}
	if _, err := n.WriteAt(block, 0); !errors.Is(err, ErrRemoved) {
		t.Errorf("removed, which the host does not know: %v", err)
	}
	if _, err := r.sub.AddNamespace(target.NamespaceConfig{Store: other, UUID: uuid.MustParse("6f1f2a3c-0d3e-4c7b-9d57-1a0f6f0e5b02")}); err != nil {
		t.Fatal(err)
	}
	if _, err := n.Refresh(); !errors.Is(err, ErrRemoved) {
		t.Errorf("Refresh finds another: %v", err)
	}
	_, read := n.ReadAt(block, 0)
	_, wrote := n.WriteAt(block, 0)
	_, opened := n.OpenQueue(1, nil)
	for _, err := range []error{read, wrote, opened} {
		if !errors.Is(err, ErrRemoved) {
			t.Errorf("the other is used: %v", err)
		}
	}
}

// TestReplaced: no request is sent to another namespace in its place, or to a namespace that its controller did not
// identify, until it has been identified again.
func TestReplaced(t *testing.T) {
	isIdentify := func(c *capsule.Command) bool {
		return capsule.AdminOpcode(c.Opcode) == capsule.AdminIdentify && c.Identify().CNS == capsule.CNSNamespace
	}
	cases := []struct {
		name string
		lie  func(*liar)
		want error
		say  string
	}{
		{"metadata", func(l *liar) { l.ns = func(n *capsule.IdentifyNamespace) { n.LBAF[0].MS = 8 } }, ErrRemoved, "8 bytes of metadata"},
		{"blocks of 256 bytes", func(l *liar) { l.ns = func(n *capsule.IdentifyNamespace) { n.LBAF[0].LBADS = 8 } }, ErrRemoved, "blocks of 2^8"},
		{"other blocks", func(l *liar) { l.ns = func(n *capsule.IdentifyNamespace) { n.LBAF[0].LBADS = 12 } }, ErrRemoved, "blocks of 4096 bytes now, and had 512"},
		{"8 EiB", func(l *liar) { l.ns = func(n *capsule.IdentifyNamespace) { n.NSZE = 1 << 55 } }, ErrRemoved, "more than 8 EiB"},
		{"not active", func(l *liar) { l.ns = func(n *capsule.IdentifyNamespace) { n.NSZE = 0 } }, ErrRemoved, "was removed"},
		{"a descriptor that is too short", func(l *liar) { l.ids = func(b []byte) { copy(b, []byte{2, 8, 0, 0}) } }, ErrRemoved, "identifier of type 2 has 8 bytes, want 16"},
		{"another command set", func(l *liar) { l.ids = func(b []byte) { copy(b, []byte{4, 1, 0, 0, 2}) } }, ErrRemoved, "command set 2"},
		{"another identity", func(l *liar) { l.ids = func(b []byte) { copy(b, []byte{1, 8, 0, 0, 9}) } }, ErrRemoved, "EUI64 0900000000000000, and was no identifier"},
		{"refused", func(l *liar) {
			l.refuse = func(c *capsule.Command) capsule.Status {
				if isIdentify(c) {
					return capsule.StatusInternalError
				}
				return 0
			}
		}, ErrUnseen, "internal error"},
		{"no answer", func(l *liar) { l.silent = isIdentify }, ErrUnseen, "deadline"},
	}
	for _, tt := range cases {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) { testReplaced(t, tt.lie, tt.want, tt.say) })
		})
	}
}

func testReplaced(t *testing.T, lie func(*liar), want error, say string) {
	l := newLiar(t)
	honest := *l
	sent := 0
	l.io = func(_ *liarQueue, c *fabric.Command) { sent++; c.Respond(0, 0) }
	o := l.options()
	o.Timeout = time.Minute
	c, err := l.host.Connect(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	n, err := c.Namespace(context.Background(), 1)
	if err != nil {
		t.Fatal(err)
	}
	q, err := n.OpenQueue(1, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	use := func() []error { return everyRequest(t, n, q) }
	for _, err := range use() {
		if err != nil {
			t.Fatal(err)
		}
	}
	l.shard.Call(func() { sent = 0; lie(l) })
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if _, err := n.RefreshContext(ctx); err == nil || errors.Is(err, ErrRemoved) != (want == ErrRemoved) || !strings.Contains(err.Error(), say) {
		t.Errorf("Refresh: %v, want %q", err, say)
	}
	for i, err := range use() {
		if !errors.Is(err, want) || !strings.Contains(err.Error(), say) {
			t.Errorf("request %d: %v, want %v: %s", i, err, want, say)
		}
		if errors.As(err, new(*StatusError)) || errors.Is(err, context.DeadlineExceeded) { // the error of Identify
			t.Errorf("request %d, which was not sent: %v is an answer, or the end of its time", i, err)
		}
	}
	if sent != 0 {
		t.Errorf("%d commands were sent", sent)
	}
	l.shard.Call(func() { l.ns, l.ids, l.refuse, l.silent = honest.ns, honest.ids, honest.refuse, honest.silent })
	if _, err := n.Refresh(); err != nil {
		t.Error(err)
	}
	for i, err := range use() {
		if err != nil {
			t.Errorf("seen again: request %d: %v", i, err)
		}
	}
}

// everyRequest sends one request of each kind, and returns their errors.
func everyRequest(t *testing.T, n *Namespace, q *Queue) (errs []error) {
	block := make([]byte, 512)
	add := func(err error) { errs = append(errs, err) }
	add(second(n.ReadAt(block, 0)))
	add(second(n.WriteAt(block, 0)))
	add(n.Flush())
	add(second(n.Execute(context.Background(), capsule.Command{Opcode: capsule.Opcode(capsule.IOFlush)}, nil)))
	q.Submit([]backend.Request{{Op: backend.OpWrite, Length: 512, Buf: block}})
	var rs [1]backend.Result
	for q.Poll(rs[:]) == 0 {
		if err := q.Wait(); err != nil {
			t.Fatal(err)
		}
	}
	add(rs[0].Err)
	return errs
}
