package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nvmeof-go/nvmeof/nvmeof/auth"
)

// The honest host and the newcomers run in processes of their own, which execute this program again. So their
// measurements show what the target gives them, and do not depend on when the attacker's goroutines let theirs run.
// They read questions, lines of JSON, from standard input and answer each with a line on standard output. They exit at
// the end of the input, which is when the process that started them exits.

// besideEnv is the environment variable that is set for such a process.
const besideEnv = "GREMLIN_BESIDE"

// A question is a line of the input of a helper process.
type question struct {
	Do      string   // one of the constants
	Setting *setting `json:",omitempty"` // with doOpen
	Honest  string   `json:",omitempty"` // with doHonest
}

const (
	doOpen   = "open"   // must be the first
	doHonest = "honest" // start the load
	doWindow = "window"
	doAgain  = "again"
	doArrive = "arrive"
)

// A setting is what a helper process needs to know. The key is sent here because arguments are visible to every user.
type setting struct {
	Target  netip.AddrPort
	NQN     string
	HostNQN string // empty: a random one for each host
	Key     string // empty: none
	From    []netip.Addr
	First   int // index of the first address, so that each process uses others
}

// A reply is a line of the output of a helper process.
type reply struct {
	Err       string        `json:",omitempty"`
	Sample    sample        // of doWindow
	At        netip.Addr    // of doHonest: the host's address, not valid if unknown
	Took      time.Duration // of doArrive, also with Err
	BlockSize int           // of doArrive
}

// A beside is a helper process that runs an honest host or newcomers.
type beside struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *json.Decoder
}

// openBeside starts a helper process. It ends with ctx at the latest.
func openBeside(ctx context.Context, s setting) (*beside, error) {
	path, err := os.Executable()
	if err != nil {
		return nil, err
	}
	b := &beside{cmd: exec.CommandContext(ctx, path)}
	b.cmd.Env, b.cmd.Stderr = append(os.Environ(), besideEnv+"=1"), os.Stderr
	if b.in, err = b.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := b.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := b.cmd.Start(); err != nil {
		return nil, err
	}
	b.out = json.NewDecoder(out)
	if _, err := b.ask(question{Do: doOpen, Setting: &s}); err != nil {
		return nil, errors.Join(err, b.close())
	}
	return b, nil
}

// ask sends a question and waits for the reply.
func (b *beside) ask(q question) (r reply, err error) {
	line, err := json.Marshal(q)
	if err != nil {
		return r, err
	}
	if _, err := b.in.Write(append(line, '\n')); err != nil {
		return r, fmt.Errorf("the process of the host is gone: %w", err)
	}
	if err := b.out.Decode(&r); err != nil {
		return r, fmt.Errorf("the process of the host is gone: %w", err)
	}
	if r.Err != "" {
		err = errors.New(r.Err)
	}
	return r, err
}

func (b *beside) close() error {
	return errors.Join(b.in.Close(), b.cmd.Wait())
}

// serveBeside answers questions: it is the main loop of the helper process.
func serveBeside(ctx context.Context, in io.Reader, out io.Writer) error {
	var (
		s     setting
		o     *options
		a     *addresses
		load  *load
		lines = json.NewDecoder(in)
		to    = json.NewEncoder(out)
	)
	defer func() {
		if load != nil {
			load.end()
			load.honest.close()
		}
	}()
	for {
		var q question
		if err := lines.Decode(&q); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		var r reply
		var err error
		switch q.Do {
		case doOpen:
			s = *q.Setting
			o = &options{target: s.Target, nqn: s.NQN, honestNQN: s.HostNQN}
			if s.Key != "" {
				o.honestKey, err = auth.ParseKey(s.Key)
			}
			if err == nil {
				a, err = addressesFor(s.Target.Addr(), s.From)
			}
			if err == nil {
				a.next = s.First
			}
		case doHonest:
			var h honest
			if h, r.At, err = newHonest(ctx, o, q.Honest, a); err == nil {
				load = start(h)
			}
		case doWindow:
			r.Sample = load.window()
		case doAgain:
			err = load.honest.again(ctx)
		case doArrive:
			r.Took, r.BlockSize, err = arrive(ctx, o, a)
		}
		if err != nil {
			r.Err = err.Error()
		}
		if err := to.Encode(r); err != nil {
			return err
		}
	}
}

// neighbourKind is the honest host of the row "neighbour".
const neighbourKind = "neighbour"

// newHonest opens the honest host that works during attacks. at is its address, if it is a host of this program.
func newHonest(ctx context.Context, o *options, kind string, a *addresses) (h honest, at netip.Addr, err error) {
	switch kind {
	case "library", neighbourKind:
		h, err = use(a, func(addr netip.Addr) (*libraryHost, error) {
			at = addr
			l, err := newLibraryHost(ctx, o, addr)
			if err == nil {
				l.neighbour = kind == neighbourKind
			}
			return l, err
		})
		return h, at, err
	case "none":
		return noHost{}, at, nil
	}
	h, err = newDeviceHost(kind)
	return h, at, err
}

// yieldProcessors lowers the priority of this process below all others: on a machine with few processors the attacker
// must not take processor time from the honest hosts and the target. A priority belongs to a thread, and a new thread
// inherits that of its creator. The second pass finds threads that were created during the first.
func yieldProcessors() error {
	for range 2 {
		threads, err := os.ReadDir(filepath.Join("/proc", "self", "task"))
		if err != nil {
			return err
		}
		for _, t := range threads {
			id, err := strconv.Atoi(t.Name())
			if err != nil {
				return err
			}
			if err := unix.Setpriority(unix.PRIO_PROCESS, id, niceness); err != nil && !errors.Is(err, unix.ESRCH) {
				return fmt.Errorf("lower priority: %w", err)
			}
		}
	}
	return nil
}

const niceness = 19
