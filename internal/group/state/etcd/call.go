package etcd

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/nvmeof-go/nvmeof/internal/group/state"
)

// limited returns a context with the time limit of a call, which Close also ends.
func (s *Store) limited(ctx context.Context) (context.Context, context.CancelFunc) {
	limited, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	stop := context.AfterFunc(s.ctx, cancel) // ends with the call
	return limited, func() {
		stop()
		cancel()
	}
}

// ready returns an error if a call need not begin.
func (s *Store) ready(ctx context.Context) error {
	if s.ctx.Err() != nil {
		return errClosed
	}
	return ctx.Err()
}

// Get implements state.Store. It tries one endpoint after the other.
func (s *Store) Get(caller context.Context, prefix string) (state.Snapshot, error) {
	if err := s.ready(caller); err != nil {
		return state.Snapshot{}, err
	}
	ctx, cancel := s.limited(caller)
	defer cancel()
	share := max(s.cfg.Timeout/time.Duration(len(s.cfg.Endpoints)), answersIn)
	for {
		snap, err := s.get(ctx, prefix, share)
		switch {
		case err == nil || refused(err) && !errors.Is(err, errRenewed):
			return snap, err
		case isFull(err): // it is the same at all endpoints, and lasts
			return snap, s.failed(caller, state.ErrUnavailable, err)
		}
		select {
		case <-ctx.Done():
			return snap, s.failed(caller, state.ErrUnavailable, err)
		case <-time.After(pause):
		}
	}
}

// get is one attempt. The deletion changes nothing: see the package comment.
func (s *Store) get(ctx context.Context, prefix string, limit time.Duration) (snap state.Snapshot, err error) {
	e, err := s.use()
	if err != nil {
		return snap, err
	}
	defer s.release(e)
	attempt, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	defer context.AfterFunc(e.ctx, cancel)() // ends with the attempt
	r, err := e.client.Txn(attempt).Then(
		clientv3.OpGet(s.prefix+prefix, clientv3.WithPrefix()),
		clientv3.OpDelete(s.prefix), // no key is empty
	).Commit()
	if err == nil {
		err = s.known(r.Header.ClusterId)
	}
	if err != nil {
		return snap, s.judge(ctx, e, s.renew(attempt, e, err))
	}
	snap.Revision = state.Revision(r.Header.Revision)
	for _, kv := range r.Responses[0].GetResponseRange().Kvs {
		snap.Entries = append(snap.Entries, state.Entry{
			Key: strings.TrimPrefix(string(kv.Key), s.prefix), Value: kv.Value, Revision: state.Revision(kv.ModRevision),
		})
	}
	return snap, nil
}

// Txn implements state.Store. It makes one attempt, except after a login that was renewed. A transaction that only compares goes through the log like any
// other one: see operations.
func (s *Store) Txn(caller context.Context, t state.Txn) (state.Result, error) {
	if err := t.Check(); err != nil {
		return state.Result{}, err
	}
	if err := s.ready(caller); err != nil {
		return state.Result{}, err
	}
	ctx, cancel := s.limited(caller)
	defer cancel()
	for tries := 1; ; tries++ {
		r, err := s.txn(caller, ctx, &t)
		if !errors.Is(err, errRenewed) || tries == loginTries {
			return r, err
		}
	}
}

// txn is one attempt, with the limited context of the caller.
func (s *Store) txn(caller, ctx context.Context, t *state.Txn) (state.Result, error) {
	e, err := s.use()
	if err != nil {
		return state.Result{}, err
	}
	defer s.release(e)
	r, err := e.client.Txn(ctx).If(s.comparisons(t.If)...).Then(s.operations(t.Then)...).Commit()
	if err == nil {
		err = s.known(r.Header.ClusterId)
	}
	if err == nil {
		return state.Result{Done: r.Succeeded, Revision: state.Revision(r.Header.Revision)}, nil
	}
	if err = s.judge(caller, e, s.renew(ctx, e, err)); refused(err) {
		return state.Result{}, err
	}
	return state.Result{}, s.failed(caller, state.ErrUnknown, err)
}

func (s *Store) comparisons(all []state.Compare) []clientv3.Cmp {
	list := make([]clientv3.Cmp, len(all))
	for i, c := range all {
		list[i] = clientv3.Compare(clientv3.ModRevision(s.prefix+c.Key), "=", int64(c.Revision))
	}
	return list
}

// operations never returns an empty list. For a transaction without operations etcd assumes that it need not be
// linearizable, so a member that lags behind or is cut off from the others would compare with its own state. The
// deletion changes nothing.
func (s *Store) operations(all []state.Op) []clientv3.Op {
	if len(all) == 0 {
		return []clientv3.Op{clientv3.OpDelete(s.prefix)} // no key is empty
	}
	list := make([]clientv3.Op, len(all))
	for i, o := range all {
		if o.Delete {
			list[i] = clientv3.OpDelete(s.prefix + o.Key)
		} else {
			list[i] = clientv3.OpPut(s.prefix+o.Key, string(o.Value))
		}
	}
	return list
}

// judge abandons an endpoint that did not answer, and adds to the error whose fault it is.
func (s *Store) judge(ctx context.Context, e *endpoint, err error) error {
	switch {
	case isFull(err):
		err = fmt.Errorf("%w: compact and defragment etcd, then etcdctl alarm disarm", err)
		s.refuses(e, err)
	case errors.Is(err, errRenewed):
	case refused(err):
		if ofUser(err) {
			err = fmt.Errorf("%w: %w", state.ErrRefused, err)
		}
		s.refuses(e, err)
	case ctx.Err() == nil:
		s.leaves(e, err)
	}
	return fmt.Errorf("etcd at %s: %w", e.name, err)
}

// isFull reports whether etcd's database is full: the endpoint answers, and others would answer the same.
func isFull(err error) bool {
	return errors.Is(err, rpctypes.ErrNoSpace) || errors.Is(err, rpctypes.ErrGRPCNoSpace)
}

// errOtherCluster says that an endpoint belongs to another cluster than the earlier ones.
var errOtherCluster = errors.New("this endpoint belongs to another etcd cluster than the previous one: give endpoints of one cluster only; if the cluster was restored from a backup, stop all gateways and start them again")

// known returns an error if an answer comes from another cluster than the first one.
func (s *Store) known(cluster uint64) error {
	if !s.cluster.CompareAndSwap(0, cluster) && s.cluster.Load() != cluster {
		return errOtherCluster
	}
	return nil
}

// Status codes with which etcd rejects a request.
const (
	invalidArgument  = 3
	permissionDenied = 7
	unauthenticated  = 16
)

// refused reports whether etcd has rejected a request and will not execute it. A connection error may follow an
// executed request, and so may the error for a full database.
func refused(err error) bool {
	var server rpctypes.EtcdError
	if !errors.As(err, &server) {
		return false
	}
	switch server.Code() {
	case invalidArgument, permissionDenied, unauthenticated:
		return true
	}
	return false
}

// failed returns the error of a call with an unknown outcome, or of a read that failed.
func (s *Store) failed(caller context.Context, kind, err error) error {
	switch {
	case s.ctx.Err() != nil:
		return fmt.Errorf("%w: %w", kind, errClosed)
	case caller.Err() != nil:
		return fmt.Errorf("%w: %w", kind, caller.Err())
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%w: %w (no answer in %v)", kind, err, s.cfg.Timeout)
	}
	return fmt.Errorf("%w: %w", kind, err)
}
