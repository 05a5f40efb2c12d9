package target

import (
	"bytes"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/internal/fabric"
)

func TestEndToEnd(t *testing.T) {
	for name, p := range providers() {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRemote(t, p)
				time.Sleep(time.Minute) // shards that have slept for long still work
				admin, io := r.controller(4)
				cmd := capsule.Command{Opcode: capsule.Opcode(capsule.AdminIdentify)}
				capsule.Identify{CNS: capsule.CNSController}.Put(&cmd)
				admin.do(cmd, 0, capsule.IdentifySize)
				if id, err := capsule.DecodeIdentifyController(admin.bytes(0, capsule.IdentifySize)); err != nil || !id.SubNQN.Is(testSubNQN) {
					t.Errorf("identify controller %+v, %v", id, err)
				}
				for i, q := range io {
					for _, n := range []int{4096, 8192, 128 << 10, 1 << 20} {
						want := pattern(n, byte(i+n>>12))
						copy(q.bytes(0, n), want)
						q.do(rwCommand(capsule.IOWrite, capsule.LBA(i*512), uint32(n/4096)), 0, n)
						clear(q.bytes(2<<20, n))
						q.do(rwCommand(capsule.IORead, capsule.LBA(i*512), uint32(n/4096)), 2<<20, n)
						if !bytes.Equal(q.bytes(2<<20, n), want) {
							t.Fatalf("queue %d, %d bytes: read back differs", i+1, n)
						}
					}
				}
				if a, b := r.target.first.workers[0].queues.Load(), r.target.first.workers[1].queues.Load(); a < 2 || b < 2 {
					t.Errorf("%d and %d queues on the two shards", a, b)
				}
				r.close()
			})
		})
	}
}

// TestSharedReceives: queues that share fewer receives than they have entries work like others, and release their
// memory.
func TestSharedReceives(t *testing.T) {
	for name, p := range providers() {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRemote(t, p, func(c *Config) { c.SharedReceives = 24 })
				_, io := r.controller(4)
				for round := range 3 {
					for i, q := range io {
						const n = 64 << 10
						want := pattern(n, byte(round*4+i))
						copy(q.bytes(0, n), want)
						for off := 0; off < n; off += 4096 {
							q.do(rwCommand(capsule.IOWrite, capsule.LBA(i*512+off/4096), 1), off, 4096)
						}
						clear(q.bytes(2<<20, n))
						q.do(rwCommand(capsule.IORead, capsule.LBA(i*512), n/4096), 2<<20, n)
						if !bytes.Equal(q.bytes(2<<20, n), want) {
							t.Fatalf("queue %d: read back differs", i+1)
						}
					}
				}
				r.close()
			})
		})
	}
}

// TestReceivesRunOut: when commands that the store holds have all shared receives of a shard, further commands wait, and
// no queue ends.
func TestReceivesRunOut(t *testing.T) {
	for name, p := range providers() {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const receives = 8
				r := newRemote(t, p, func(c *Config) { c.Shards, c.SharedReceives = 1, receives })
				s := newFakeStore(1 << 20)
				if _, err := r.sub.AddNamespace(NamespaceConfig{Store: s}); err != nil {
					t.Fatal(err)
				}
				_, io := r.controller(2)
				s.set(true, nil)
				var begun []chan *fabric.Request
				for i := range receives + 2 {
					cmd := rwCommand(capsule.IORead, 0, 4096/512)
					cmd.NSID = 2
					begun = append(begun, io[i/receives].start(cmd, i*4096, 4096))
				}
				time.Sleep(50 * time.Millisecond)
				for i, q := range io {
					select {
					case <-q.ended:
						t.Errorf("queue %d has ended", i+1)
					default:
					}
				}
				s.set(false, nil)
				for i, done := range begun {
					if req := <-done; req.Err != nil || !req.Completion.Status.OK() {
						t.Errorf("command %d: %v, %v", i, req.Completion.Status, req.Err)
					}
				}
				r.close()
			})
		})
	}
}

// TestBlocksAreNeverHalfWritten overwrites blocks while others read them, over a lossy network with packets
// smaller than a block: each block that is read is entirely from one write.
func TestBlocksAreNeverHalfWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRemote(t, overSoftroce(7, lossy))
		_, io := r.controller(2)
		const blocks, depth, rounds = 4, 8, 40
		rng := rand.New(rand.NewPCG(3, 4))
		type flight struct {
			done   chan *fabric.Request
			offset int
			read   bool
		}
		var flights []flight
		version := byte(0)
		finish := func(f flight) {
			req := <-f.done
			if req.Err != nil || !req.Completion.Status.OK() {
				t.Fatal(req.Completion.Status, req.Err)
			}
			if !f.read {
				return
			}
			for b := range blocks {
				block := r.memory.Bytes()[f.offset+b*4096:][:4096]
				if i := bytes.IndexFunc(block, func(c rune) bool { return byte(c) != block[0] }); i >= 0 {
					t.Fatalf("block %d is of write %d up to byte %d, then of %d", b, block[0], i, block[i])
				}
			}
		}
		for i := range rounds * depth {
			q, offset := io[i%2], i%depth*blocks*4096
			if len(flights) == depth {
				finish(flights[0])
				flights = flights[1:]
			}
			f := flight{offset: offset, read: rng.IntN(2) == 0}
			data := q.bytes(offset, blocks*4096)
			op := capsule.IORead
			if f.read {
				for j := range data {
					data[j] = byte(j) // remains of a read would be noticed
				}
			} else {
				op = capsule.IOWrite
				version = version%127 + 1 // ASCII: IndexFunc reads runes
				for j := range data {
					data[j] = version
				}
			}
			f.done = q.start(rwCommand(op, 0, blocks), offset, len(data))
			flights = append(flights, f)
		}
		for _, f := range flights {
			finish(f)
		}
		r.close()
	})
}

// TestHostGoesAwayInMidLoad ends the queues with commands in flight.
func TestHostGoesAwayInMidLoad(t *testing.T) {
	for name, p := range providers() {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRemote(t, p)
				_, io := r.controller(2)
				for i := range 60 {
					io[0].start(rwCommand(capsule.IOWrite, capsule.LBA(i*32), 32), i*128<<10%remoteMemory, 128<<10)
					io[1].start(rwCommand(capsule.IORead, capsule.LBA(i*32), 32), i*128<<10%remoteMemory, 128<<10)
				}
				r.call(io[0].hq.Disconnect)
				<-io[0].ended
				_, again := r.controller(1)
				again[0].do(rwCommand(capsule.IORead, 0, 1), 0, 4096)
				r.close()
			})
		})
	}
}
