package etcd

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/nvmeof-go/nvmeof/internal/group/state"
)

const (
	askEvery  = 500 * time.Millisecond // how often the endpoint is checked
	answersIn = time.Second            // otherwise the endpoint is abandoned
	pause     = 50 * time.Millisecond  // between attempts on endpoints that refuse at once
)

// A Store is one group's state in etcd.
type Store struct {
	cfg    Config
	tls    *tls.Config
	prefix string // of all keys

	ctx   context.Context // ends with Close
	close context.CancelFunc
	wait  sync.WaitGroup // for the goroutine of ask

	cluster    atomic.Uint64 // identifier of the cluster that has answered; 0: none yet
	compaction compaction    // used only by ask
	login      login

	mu      sync.Mutex
	current *endpoint // nil: none yet, or it was abandoned
	next    int       // in cfg.Endpoints
	silent  bool      // it is logged that an endpoint does not answer
	said    string    // the refusal that was logged
	saidAt  time.Time
}

// An endpoint is a connected endpoint, which is in use until ctx ends. Its connection is closed when its last user
// releases it, so that a new connection is tried at once: etcd's client waits for up to two minutes between its
// attempts.
type endpoint struct {
	name   string
	client *clientv3.Client
	token  *string // of the login; nil: it has none
	ctx    context.Context
	leave  context.CancelFunc
	users  int // calls, watches, and the store while it is the current one; guarded by its mutex
}

var _ state.Store = (*Store)(nil)

var errClosed = fmt.Errorf("%w: the connection to it is closed", state.ErrUnavailable)

// Open checks the configuration. It does not wait for the cluster.
func Open(cfg Config) (*Store, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	t, err := cfg.tlsConfig()
	if err != nil {
		return nil, err
	}
	s := &Store{cfg: cfg, tls: t, prefix: "nvmeof/" + cfg.Group + "/", compaction: compaction{every: compactEvery, most: compactAbove}, login: login{turn: make(chan struct{}, 1), password: cfg.Password}}
	s.ctx, s.close = context.WithCancel(context.Background())
	s.wait.Go(s.ask) // ends with Close
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

// use returns the current endpoint. The caller must release it.
func (s *Store) use() (*endpoint, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx.Err() != nil {
		return nil, errClosed
	}
	if s.current == nil {
		name := s.cfg.Endpoints[s.next%len(s.cfg.Endpoints)]
		token := s.login.token.Load()
		client, err := s.connect(name, token)
		if err != nil {
			s.next++
			return nil, fmt.Errorf("etcd at %s: %w: %w", name, state.ErrUnavailable, err)
		}
		s.current = &endpoint{name: name, client: client, token: token, users: 1}
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
		e.client.Close() //nolint:errcheck // the context has ended
	}
}

// connect begins to connect and does not wait.
func (s *Store) connect(name string, token *string) (*clientv3.Client, error) {
	cfg := clientv3.Config{
		Endpoints:            []string{name},
		TLS:                  s.tls,
		Context:              s.ctx,
		Logger:               zap.NewNop(), // it logs each attempt as a warning; this package logs what matters
		DialKeepAliveTime:    10 * time.Second,
		DialKeepAliveTimeout: 3 * time.Second,
		MaxUnaryRetries:      1, // no second attempt
	}
	if token != nil {
		cfg.Token = *token
	}
	return clientv3.New(cfg)
}

// leaves makes the store use the next endpoint, because this one did not answer.
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

// drops makes the store connect again, with another token.
func (s *Store) drops(e *endpoint) {
	s.mu.Lock()
	current := s.current == e
	if current {
		s.current = nil
	}
	s.mu.Unlock()
	if current {
		e.leave()
		s.release(e)
	}
}

// sayAgain is the time after which the same refusal is logged again.
const sayAgain = time.Minute

// refuses logs that etcd answers but rejects the request.
func (s *Store) refuses(e *endpoint, why error) {
	s.mu.Lock()
	text, now := why.Error(), time.Now()
	known := s.said == text && now.Sub(s.saidAt) < sayAgain
	if !known {
		s.said, s.saidAt = text, now
	}
	s.mu.Unlock()
	if !known {
		s.cfg.Log.Error("etcd refuses requests of this gateway", zap.String("endpoint", e.name), zap.Error(why))
	}
}

func (s *Store) answered(e *endpoint) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.silent {
		s.silent = false
		s.cfg.Log.Info("etcd answers again", zap.String("endpoint", e.name))
	}
}

// ask abandons endpoints that do not answer. A watch alone would not detect that.
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
	if err = s.renew(ctx, e, err); errors.Is(err, errRenewed) {
		return
	}
	if err == nil && e.token == nil {
		s.login.needless.Store(true)
	}
	if err == nil || refused(err) {
		s.answered(e)
		s.compaction.check(s, e)
	} else if e.ctx.Err() == nil {
		s.leaves(e, err)
	}
}
