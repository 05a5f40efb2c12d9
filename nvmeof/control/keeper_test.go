package control

import (
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/backend/memory"
	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/config"
	"github.com/nvmeof-go/nvmeof/nvmeof/target"
)

// A markedStore has a mark of its own, like an image of Ceph.
type markedStore struct{ backend.Store }

func (markedStore) Mark() []byte { return []byte("cluster/image") }

// A noKeeper stores nothing.
type noKeeper struct{ of uuid.UUID }

func (*noKeeper) Load(answer func([]byte, error))   { answer(nil, nil) }
func (*noKeeper) Keep(_ []byte, answer func(error)) { answer(nil) }
func (*noKeeper) Confirm(answer func(error))        { answer(nil) }

// TestKeeperOfImage: reservations are stored by the UUID that hosts see, which is derived from the image.
func TestKeeperOfImage(t *testing.T) {
	t.Parallel()
	var asked []uuid.UUID
	r := newRig(t, func(c *Config) {
		c.Open = func(n *config.Namespace, pool *memory.Pool) (backend.Store, []string, error) {
			m, err := memory.New(memory.Config{Size: 1 << 20})
			return markedStore{m}, nil, err
		}
		c.Keeper = func(_ nvmeof.NQN, n *target.NamespaceConfig) target.ReservationKeeper {
			asked = append(asked, n.UUID)
			return &noKeeper{n.UUID}
		}
	})
	r.apply(r.doc(strings.Replace(first, "file:\n          path: DIR/a1\n          size: 1MiB", "rbd:\n          image: p/i", 1)))
	for _, s := range r.target.Subsystems() {
		for _, n := range s.Namespaces() {
			if len(asked) == 0 || n.ID() == 1 && asked[0] != n.UUID() {
				t.Errorf("namespace %d has UUID %v, and its reservations %v", n.ID(), n.UUID(), asked)
			}
		}
	}
}
