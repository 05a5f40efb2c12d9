package host

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/auth"
	"github.com/nvmeof-go/nvmeof/nvmeof/target"
)

var long = flag.Bool("long", false, "the largest groups, and more seeds and rounds")

const keyedHostNQN nvmeof.NQN = "nqn.2014-08.org.nvmexpress:uuid:11111111-2222-3333-4444-555555555555"

func newKey(t testing.TB) auth.Key {
	t.Helper()
	k, err := auth.GenerateKey(auth.HashSHA384, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// keys are the keys that the target has for the host.
type keys struct{ host, ctrl auth.Key }

func (r *rig) setKeys(k keys, more func(*target.HostConfig)) {
	r.t.Helper()
	c := target.HostConfig{NQN: keyedHostNQN, DHCHAPKey: k.host, DHCHAPCtrlKey: k.ctrl}
	if more != nil {
		more(&c)
	}
	if err := r.sub.SetHost(c); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) keyedOptions(k keys) Options {
	o := r.options()
	o.HostNQN, o.HostID, o.NrIOQueues = keyedHostNQN, capsule.HostID{1}, 3
	o.DHCHAPSecret, o.DHCHAPCtrlSecret = k.host, k.ctrl
	return o
}

// TestAuthenticate: every queue is authenticated before namespaces can be used, with each hash and with each group.
// Package auth tests all pairs of them, and the largest groups in its quick form, too.
func TestAuthenticate(t *testing.T) {
	hashes := auth.AllHashes()
	for i, group := range auth.AllGroups() {
		for j, hash := range hashes {
			if group.Size() > 0 && j != i%len(hashes) { // each hash without a group, and each group with one hash
				continue
			}
			if group.Size() > 3072/8 && !*long {
				continue
			}
			for _, mutual := range []bool{false, true} {
				t.Run(fmt.Sprintf("%v,%v,mutual=%v", hash, group, mutual), func(t *testing.T) {
					inBubble(t, func(t *testing.T) { authenticate(t, hash, group, mutual) })
				})
			}
		}
	}
}

// authenticate connects with keys, writes, and requires each queue to be authenticated.
func authenticate(t *testing.T, hash auth.Hash, group auth.Group, mutual bool) {
	r := newRig(t, rigConfig{stores: []backend.Store{newStore(t, 1<<20, 512)}, host: Config{Shards: 2}})
	k := keys{newKey(t), newKey(t)}
	r.setKeys(k, func(c *target.HostConfig) {
		c.DHCHAPHashes, c.DHCHAPGroups = []auth.Hash{hash}, []auth.Group{group}
	})
	if !mutual {
		k.ctrl = auth.Key{}
	}
	c := r.connect(r.keyedOptions(k))
	if _, err := r.namespace(c).WriteAt(make([]byte, 4096), 0); err != nil {
		t.Error(err)
	}
	if got := r.target.AuthCounts(); got != (target.AuthCounts{Succeeded: 4}) {
		t.Errorf("target counts %+v, want 4 queues authenticated", got)
	}
}

// TestAuthenticationRefused: the error says which side refused, and why.
func TestAuthenticationRefused(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(t *testing.T, r *rig, k keys, o *Options)
		want   []string
		is     error
		by     string // host or target: an AuthError
	}{
		{"no secret", func(t *testing.T, _ *rig, _ keys, o *Options) {
			o.DHCHAPSecret, o.DHCHAPCtrlSecret = auth.Key{}, auth.Key{}
		},
			[]string{"requires authentication", "--dhchap-secret"}, ErrNoSecret, ""},
		{"wrong secret", func(t *testing.T, _ *rig, _ keys, o *Options) { o.DHCHAPSecret = newKey(t) },
			[]string{"the target refuses this host: authentication failed", "--dhchap-secret"}, nil, "target"},
		{"wrong secret of the target", func(t *testing.T, _ *rig, _ keys, o *Options) { o.DHCHAPCtrlSecret = newKey(t) },
			[]string{"this host refuses the target", "does not know its key", "--dhchap-ctrl-secret"}, nil, "host"},
		{"target without a key", func(_ *testing.T, r *rig, k keys, _ *Options) { r.setKeys(keys{host: k.host}, nil) },
			[]string{"the target refuses this host", "--dhchap-ctrl-secret"}, nil, "target"},
		{"target that requires nothing", func(_ *testing.T, r *rig, _ keys, _ *Options) { r.setKeys(keys{}, nil) },
			[]string{"does not require authentication", "--dhchap-ctrl-secret"}, ErrNoProof, ""},
		{"secret of the target alone", func(_ *testing.T, _ *rig, _ keys, o *Options) { o.DHCHAPSecret = auth.Key{} },
			[]string{"needs a DHCHAPSecret too"}, nil, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				r := newRig(t, rigConfig{stores: []backend.Store{newStore(t, 1<<20, 512)}})
				k := keys{newKey(t), newKey(t)}
				r.setKeys(k, nil)
				o := r.keyedOptions(k)
				c.change(t, r, k, &o)
				_, err := r.host.Connect(context.Background(), o)
				if err == nil {
					t.Fatal("connected")
				}
				for _, want := range c.want {
					if !strings.Contains(err.Error(), want) {
						t.Errorf("error is %q, want it to say %q", err, want)
					}
				}
				var refused *AuthError
				switch got := errors.As(err, &refused); {
				case got != (c.by != ""), got && refused.ByController() != (c.by == "target"):
					t.Errorf("error is %#v", err)
				case c.is != nil && !errors.Is(err, c.is):
					t.Errorf("error is not %v", c.is)
				}
				for _, key := range []auth.Key{o.DHCHAPSecret, o.DHCHAPCtrlSecret} {
					if !key.IsZero() && strings.Contains(err.Error(), key.Text()) {
						t.Error("the error shows a key")
					}
				}
				synctest.Wait()
				r.setKeys(k, nil)
				r.connect(r.keyedOptions(k)) // nothing is left that prevents a connection
			})
		})
	}
}

// TestSecretIsOptional: a host does not authenticate itself to a target that does not require it.
func TestSecretIsOptional(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newRig(t, rigConfig{stores: []backend.Store{newStore(t, 1<<20, 512)}})
		r.connect(r.keyedOptions(keys{host: newKey(t)}))
		if _, err := r.host.Discover(context.Background(), Options{Traddr: r.addr.Addr(), Trsvcid: r.addr.Port(),
			DHCHAPSecret: newKey(t), DHCHAPCtrlSecret: newKey(t)}); err != nil {
			t.Errorf("Discover: %v", err)
		}
	})
}

// TestAuthenticateAgain: authentication is repeated during traffic on the queues, and with changed keys.
func TestAuthenticateAgain(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newRig(t, rigConfig{stores: []backend.Store{newStore(t, 1<<20, 512)}, host: Config{Shards: 2}})
		k := keys{newKey(t), newKey(t)}
		r.setKeys(k, nil)
		c := r.connect(r.keyedOptions(k))
		n := r.namespace(c)
		var stop atomic.Bool
		ended := make(chan error)
		go func() {
			want, got := make([]byte, 8192), make([]byte, 8192)
			for i := 0; !stop.Load(); i++ {
				pattern(want, i)
				_, err := n.WriteAt(want, 0)
				if err == nil {
					_, err = n.ReadAt(got, 0)
				}
				if err != nil || !bytes.Equal(want, got) {
					ended <- fmt.Errorf("round %d: %w", i, err)
					return
				}
			}
			ended <- nil
		}()
		for range 3 {
			k = keys{newKey(t), newKey(t)}
			r.setKeys(k, nil)
			if err := c.Authenticate(context.Background(), k.host, k.ctrl); err != nil {
				t.Fatal(err)
			}
		}
		stop.Store(true)
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if got := r.target.AuthCounts(); got != (target.AuthCounts{Succeeded: 16}) {
			t.Errorf("target counts %+v, want 4 queues authenticated 4 times", got)
		}
		if err := c.Authenticate(context.Background(), auth.Key{}, auth.Key{}); err == nil || c.Err() != nil {
			t.Errorf("no key: %v, controller %v", err, c.Err())
		}
		err := c.Authenticate(context.Background(), newKey(t), k.ctrl)
		var refused *AuthError
		if !errors.As(err, &refused) || !refused.ByController() {
			t.Errorf("wrong key: %v", err)
		}
		<-c.Done()
		if !errors.As(c.Err(), &refused) {
			t.Errorf("controller is lost for %v", c.Err())
		}
		if _, err := n.ReadAt(make([]byte, 512), 0); err == nil {
			t.Error("the namespace is still there")
		}
	})
}

// TestLyingAuthenticator is rows 103 and 107: a controller that sends invalid messages, or none.
func TestLyingAuthenticator(t *testing.T) {
	for _, c := range []struct {
		name string
		lie  func(*liar)
		want string
	}{
		{"zeroes", func(*liar) {}, "incorrect protocol message"},
		{"ones", func(l *liar) { l.proof = func(b []byte) { copy(b, bytes.Repeat([]byte{0xff}, len(b))) } }, "incorrect protocol message"},
		{"Success1 at once", func(l *liar) {
			l.proof = func(b []byte) { copy(b, (&auth.Success1{Transaction: 1}).Encode(32)) }
		}, "incorrect protocol message"},
		{"group of its own", func(l *liar) {
			l.proof = func(b []byte) {
				copy(b, (&auth.Challenge{Transaction: 1, Hash: auth.HashSHA256, Group: 77, Value: make([]byte, 32)}).Encode())
			}
		}, "group not usable"},
		{"AUTH_Failure1", func(l *liar) {
			l.proof = func(b []byte) { copy(b, auth.EncodeFailure(auth.MessageFailure1, 1, auth.ReasonGroup)) }
		}, "the target refuses this host: Diffie-Hellman group not usable"},
		{"hanging up on the proof", func(l *liar) {
			challenge := &auth.Challenge{Transaction: 1, Hash: auth.HashSHA256, Sequence: 1, Value: make([]byte, 32)}
			l.proof = func(b []byte) {
				copy(b, challenge.Encode())
				l.proof = func([]byte) { l.queues[0].queue.Disconnect() }
			}
		}, "ended the connection during authentication; is --dhchap-secret"},
		{"silence", func(l *liar) {
			l.silent = func(c *capsule.Command) bool {
				return c.Opcode == capsule.OpcodeFabrics && c.FabricsType() == capsule.FabricsAuthReceive
			}
		}, "deadline exceeded"},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				l := newLiar(t)
				l.atr, l.proof = true, func([]byte) {}
				c.lie(l)
				o := l.options()
				o.DHCHAPSecret, o.Timeout = newKey(t), 20*time.Second
				l.wantRefused(o, c.want)
			})
		})
	}
}
