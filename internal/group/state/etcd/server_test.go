package etcd

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// A server implements as much of etcd as a Store uses, with faults. Its members share one state.
type server struct {
	etcdserverpb.UnimplementedKVServer
	etcdserverpb.UnimplementedWatchServer
	etcdserverpb.UnimplementedAuthServer
	etcdserverpb.UnimplementedMaintenanceServer

	mu       sync.Mutex
	revision int64
	keys     map[string]*mvccpb.KeyValue
	watches  map[chan *mvccpb.KeyValue]bool
	behind   bool  // members are cut off from each other: see Txn
	lose     bool  // replies to transactions that change something
	failure  error // of each transaction, which is executed
	refuses  error // of each transaction, which is not executed
	token    string
	password string // "": right
	id       uint64 // of the cluster
	logins   int
	history  int64 // the first revision that is not compacted
}

func newServer() *server {
	return &server{revision: 1, keys: map[string]*mvccpb.KeyValue{}, watches: map[chan *mvccpb.KeyValue]bool{}}
}

// do changes the faults.
func (s *server) do(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

// A member serves at an address until it is stopped.
type member struct {
	t       *testing.T
	s       *server
	address string
	options []grpc.ServerOption
	grpc    *grpc.Server
	hold    chan struct{} // nil: it answers
}

func (s *server) member(t *testing.T, address string, options ...grpc.ServerOption) *member {
	m := &member{t: t, s: s, address: address, options: options}
	m.start()
	t.Cleanup(m.stop)
	return m
}

func (m *member) start() {
	l, err := net.Listen("tcp", m.address)
	for i := 0; i < 100 && errors.Is(err, syscall.EADDRINUSE); i++ { // another program uses the port
		time.Sleep(50 * time.Millisecond)
		l, err = net.Listen("tcp", m.address)
	}
	if err != nil {
		m.t.Error(err)
		return
	}
	m.address = l.Addr().String()
	m.grpc = grpc.NewServer(append(m.options, grpc.MaxRecvMsgSize(2<<20), grpc.UnaryInterceptor(m.unary), grpc.StreamInterceptor(m.stream))...)
	etcdserverpb.RegisterKVServer(m.grpc, m.s)
	etcdserverpb.RegisterWatchServer(m.grpc, m.s)
	etcdserverpb.RegisterAuthServer(m.grpc, m.s)
	etcdserverpb.RegisterMaintenanceServer(m.grpc, m.s)
	go m.grpc.Serve(l) //nolint:errcheck // until stop
}

func (m *member) stop() { m.grpc.Stop() }

// freeze makes a member answer nothing until the test ends.
func (m *member) freeze() {
	m.s.do(func() { m.hold = make(chan struct{}) })
	m.t.Cleanup(func() { close(m.hold) })
}

func (m *member) held() (hold chan struct{}) {
	m.s.do(func() { hold = m.hold })
	return hold
}

func (m *member) unary(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	if hold := m.held(); hold != nil {
		select {
		case <-hold:
		case <-ctx.Done():
		}
		return nil, ctx.Err()
	}
	return handle(ctx, req)
}

func (m *member) stream(srv any, ss grpc.ServerStream, _ *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
	if hold := m.held(); hold != nil {
		<-ss.Context().Done()
		return nil
	}
	return handle(srv, ss)
}

func (s *server) header() *etcdserverpb.ResponseHeader {
	return &etcdserverpb.ResponseHeader{Revision: s.revision, ClusterId: s.id}
}

// Authenticate refuses a login that has an invalid token, as etcd before 3.5.
func (s *server) Authenticate(ctx context.Context, r *etcdserverpb.AuthenticateRequest) (*etcdserverpb.AuthenticateResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.logins++; tokenOf(ctx) != "" {
		if err := s.admits(ctx); err != nil {
			return nil, err
		}
	}
	if r.Password != cmp.Or(s.password, "right") {
		return nil, rpctypes.ErrGRPCAuthFailed
	}
	return &etcdserverpb.AuthenticateResponse{Header: s.header(), Token: s.token}, nil
}

// Status reports one byte of size per revision.
func (s *server) Status(context.Context, *etcdserverpb.StatusRequest) (*etcdserverpb.StatusResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return &etcdserverpb.StatusResponse{Header: s.header(), DbSizeInUse: s.revision - s.history}, nil
}

func (s *server) Compact(_ context.Context, r *etcdserverpb.CompactionRequest) (*etcdserverpb.CompactionResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.refuses != nil:
		return nil, s.refuses
	case r.Revision <= s.history:
		return nil, rpctypes.ErrGRPCCompacted
	}
	s.history = r.Revision
	return &etcdserverpb.CompactionResponse{Header: s.header()}, nil
}

func (s *server) admits(ctx context.Context) error {
	switch md := tokenOf(ctx); {
	case s.token == "" || md == s.token:
		return nil
	case md == "":
		return rpctypes.ErrGRPCUserEmpty
	}
	return rpctypes.ErrGRPCInvalidAuthToken
}

func (s *server) Range(ctx context.Context, r *etcdserverpb.RangeRequest) (*etcdserverpb.RangeResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.admits(ctx); err != nil {
		return nil, err
	}
	return s.read(r), nil
}

func (s *server) read(r *etcdserverpb.RangeRequest) *etcdserverpb.RangeResponse {
	resp := &etcdserverpb.RangeResponse{Header: s.header()}
	for key, kv := range s.keys {
		if within(key, r.Key, r.RangeEnd) && !r.CountOnly {
			resp.Kvs = append(resp.Kvs, kv)
		}
	}
	slices.SortFunc(resp.Kvs, func(a, b *mvccpb.KeyValue) int { return bytes.Compare(a.Key, b.Key) })
	return resp
}

func within(key string, from, end []byte) bool {
	if len(end) == 0 {
		return key == string(from)
	}
	return key >= string(from) && key < string(end)
}

// Txn is answered by a member that lags behind if no operation must be linearizable, as in etcd.
func (s *server) Txn(ctx context.Context, r *etcdserverpb.TxnRequest) (*etcdserverpb.TxnResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := cmp.Or(s.admits(ctx), s.refuses); err != nil {
		return nil, err
	}
	if s.behind && len(r.Success)+len(r.Failure) > 0 {
		return nil, rpctypes.ErrGRPCTimeout
	}
	resp := &etcdserverpb.TxnResponse{Succeeded: !slices.ContainsFunc(r.Compare, func(c *etcdserverpb.Compare) bool {
		return s.keys[string(c.Key)].GetModRevision() != c.GetModRevision()
	})}
	before := s.revision
	if resp.Succeeded {
		resp.Responses = s.apply(r.Success)
	}
	resp.Header = s.header()
	if s.lose && s.revision > before {
		return nil, status.Error(codes.Unavailable, "transport is closing")
	}
	return resp, s.failure
}

// apply executes the operations and notifies watches.
func (s *server) apply(ops []*etcdserverpb.RequestOp) (all []*etcdserverpb.ResponseOp) {
	var changed []*mvccpb.KeyValue
	for _, op := range ops {
		resp := &etcdserverpb.ResponseOp{}
		switch r := op.Request.(type) {
		case *etcdserverpb.RequestOp_RequestRange:
			resp.Response = &etcdserverpb.ResponseOp_ResponseRange{ResponseRange: s.read(r.RequestRange)}
		case *etcdserverpb.RequestOp_RequestPut:
			kv := &mvccpb.KeyValue{Key: r.RequestPut.Key, Value: r.RequestPut.Value, ModRevision: s.revision + 1}
			s.keys[string(kv.Key)] = kv
			changed = append(changed, kv)
		case *etcdserverpb.RequestOp_RequestDeleteRange:
			if kv := s.keys[string(r.RequestDeleteRange.Key)]; kv != nil {
				delete(s.keys, string(kv.Key))
				changed = append(changed, kv)
			}
		}
		all = append(all, resp)
	}
	if len(changed) > 0 {
		s.revision++
	}
	for _, kv := range changed {
		for w := range s.watches {
			w <- kv
		}
	}
	return all
}

// Watch serves all watches of a stream, and says to which of them each change belongs.
func (s *server) Watch(stream etcdserverpb.Watch_WatchServer) error {
	requests := make(chan *etcdserverpb.WatchRequest)
	go func() { // until the stream ends
		defer close(requests)
		for r, err := stream.Recv(); err == nil; r, err = stream.Recv() {
			requests <- r
		}
	}()
	changes := make(chan *mvccpb.KeyValue, 10_000)
	s.do(func() { s.watches[changes] = true })
	defer s.do(func() { delete(s.watches, changes) })
	var watched []*etcdserverpb.WatchCreateRequest
	for {
		var resp []*etcdserverpb.WatchResponse
		select {
		case r, open := <-requests:
			if !open {
				return nil
			}
			if c := r.GetCreateRequest(); c != nil {
				watched = append(watched, c)
				resp = append(resp, &etcdserverpb.WatchResponse{WatchId: int64(len(watched)), Created: true})
			}
		case kv := <-changes:
			for i, c := range watched {
				if within(string(kv.Key), c.Key, c.RangeEnd) {
					e := &mvccpb.Event{Kv: kv}
					resp = append(resp, &etcdserverpb.WatchResponse{WatchId: int64(i + 1), Events: []*mvccpb.Event{e}})
				}
			}
		}
		for _, r := range resp {
			s.do(func() { r.Header = s.header() })
			if err := stream.Send(r); err != nil {
				return err
			}
		}
	}
}

func tokenOf(ctx context.Context) string {
	md, _ := metadata.FromIncomingContext(ctx)
	return strings.Join(md.Get(rpctypes.TokenFieldNameGRPC), "")
}
