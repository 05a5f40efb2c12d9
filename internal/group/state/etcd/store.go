package etcd

import (
	"context"
	"crypto/tls"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/nvmeof-go/nvmeof/internal/group/state"
)

const (
	askEvery  = 500 * time.Millisecond // whether the endpoint answers
	answersIn = time.Second            // otherwise it is left
	pause     = 50 * time.Millisecond  // between attempts on endpoints that refuse at once
)

// A Store is one group's state in etcd.
type Store struct {
	cfg    Config
	tls    *tls.Config
	prefix string // of all keys

	ctx   context.Context // until Close
	close context.CancelFunc
	wait  sync.WaitGroup // for what asks whether the endpoint answers

	cluster atomic.Uint64 // identifier of the one that has answered; 0: none has
	room    room          // of ask alone

	mu      sync.Mutex
	current *endpoint // nil: none yet, or it was left
	next    int       // in cfg.Endpoints
	silent  bool      // it is logged that an endpoint does not answer
	said    string    // the refusal that was logged
	saidAt  time.Time
}

// An endpoint is the one in use until ctx ends. Its connection is closed when nobody uses it any
// more, so that a new one is tried at once: etcd's client waits between its attempts for up to
// two minutes.
type endpoint struct {
	name   string
	client *clientv3.Client
	ctx    context.Context
	leave  context.CancelFunc
	users  int // calls, watches, and the store while it is the current one; under its mutex
}

var _ state.Store = (*Store)(nil)

var errClosed = fmt.Errorf("%w: it is closed", state.ErrUnavailable)

// Open checks the configuration. It does not wait for the cluster.
func Open(cfg Config) (*Store, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	t, err := cfg.tlsConfig()
	if err != nil {
		return nil, err
	}
	s := &Store{cfg: cfg, tls: t, prefix: "nvmeof/" + cfg.Group + "/", room: room{every: roomEvery, most: roomMost}}
	s.ctx, s.close = context.WithCancel(context.Background())
	s.wait.Go(s.ask) // until Close
	return s, nil
}

// Close implements state.Store.
func (s *Store) Close() error {
	s.close()
	s.wait.Wait()
	s.mu.Lock()
	e := s.current
	s.current = nil
	s.mu.Unlock()
	if e != nil {
		e.leave()
		s.release(e)
	}
	return nil
}

// use is the endpoint in use, which the caller releases.
func (s *Store) use() (*endpoint, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx.Err() != nil {
		return nil, errClosed
	}
	if s.current == nil {
		name := s.cfg.Endpoints[s.next%len(s.cfg.Endpoints)]
		client, err := s.connect(name)
		if err != nil {
			s.next++
			return nil, fmt.Errorf("etcd at %s: %w: %w", name, state.ErrUnavailable, err)
		}
		s.current = &endpoint{name: name, client: client, users: 1}
		s.current.ctx, s.current.leave = context.WithCancel(s.ctx)
	}
	s.current.users++
	return s.current, nil
}

func (s *Store) release(e *endpoint) {
	s.mu.Lock()
	e.users--
	last := e.users == 0
	s.mu.Unlock()
	if last {
		e.client.Close() //nolint:errcheck // that its context has ended
	}
}

// noToken is one that no etcd gives.
const noToken = "none"

// connect begins to connect, and does not wait. New would log in and wait for that: a client
// with a token does not, and one whose token is invalid logs in when it is first used.
func (s *Store) connect(name string) (*clientv3.Client, error) {
	token := ""
	if s.cfg.User != "" {
		token = noToken
	}
	c, err := clientv3.New(clientv3.Config{
		Endpoints:            []string{name},
		TLS:                  s.tls,
		Token:                token,
		Context:              s.ctx,
		Logger:               zap.NewNop(), // each attempt is a warning: what matters is logged here
		DialKeepAliveTime:    10 * time.Second,
		DialKeepAliveTimeout: 3 * time.Second,
		MaxUnaryRetries:      2, // for a token that has expired
	})
	if err != nil {
		return nil, err
	}
	c.Token, c.Username, c.Password = "", s.cfg.User, s.cfg.Password
	return c, nil
}

// leaves has the next endpoint used, since this one did not do what was asked of it.
func (s *Store) leaves(e *endpoint, why error) {
	s.mu.Lock()
	if s.current != e {
		s.mu.Unlock()
		return
	}
	s.current = nil
	s.next++
	first := !s.silent
	s.silent = true
	s.mu.Unlock()
	e.leave()
	s.release(e)
	if first {
		s.cfg.Log.Warn("etcd does not answer; trying all endpoints", zap.String("endpoint", e.name), zap.Error(why))
	}
}

// sayAgain is after what time the same refusal is logged again.
const sayAgain = time.Minute

// refuses logs that etcd answers, and does not do what is asked of it.
func (s *Store) refuses(e *endpoint, why error) {
	s.mu.Lock()
	text, now := why.Error(), time.Now()
	known := s.said == text && now.Sub(s.saidAt) < sayAgain
	if !known {
		s.said, s.saidAt = text, now
	}
	s.mu.Unlock()
	if !known {
		s.cfg.Log.Error("etcd refuses what the gateway asks of it", zap.String("endpoint", e.name), zap.Error(why))
	}
}

func (s *Store) answered(e *endpoint) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.silent {
		s.silent = false
		s.cfg.Log.Info("etcd answers", zap.String("endpoint", e.name))
	}
}

// ask leaves endpoints that do not answer: of a watch nobody else would notice.
func (s *Store) ask() {
	for tick := time.NewTicker(askEvery); ; {
		select {
		case <-s.ctx.Done():
			tick.Stop()
			return
		case <-tick.C:
		}
		if e, err := s.use(); err == nil {
			s.askOne(e)
		}
	}
}

func (s *Store) askOne(e *endpoint) {
	defer s.release(e)
	ctx, cancel := context.WithTimeout(e.ctx, answersIn)
	defer cancel()
	r, err := e.client.Get(ctx, s.prefix, clientv3.WithCountOnly())
	if err == nil {
		err = s.known(r.Header.ClusterId)
	}
	if err == nil || refused(err) {
		s.answered(e)
		s.room.look(s, e)
	} else if e.ctx.Err() == nil {
		s.leaves(e, err)
	}
}
