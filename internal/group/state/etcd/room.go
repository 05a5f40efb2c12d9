package etcd

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.uber.org/zap"
)

const (
	roomEvery = 10 * time.Minute // between two looks
	roomMost  = 512 << 20        // bytes in use, a quarter of what etcd takes where nothing else is said
)

// A room is what is known of etcd's database, in which everything stays that was ever put until its history is compacted. One
// that nobody compacts is full of heartbeats within days, and takes no more of them: nothing moves then, and leases end.
type room struct {
	every time.Duration // constant
	most  int64         // constant

	at       time.Time // of the last look
	revision int64     // then
}

// look is called with an endpoint that answers, and compacts what was history at the last look, where the database is large.
func (r *room) look(s *Store, e *endpoint) {
	if time.Since(r.at) < r.every {
		return
	}
	ctx, cancel := context.WithTimeout(e.ctx, answersIn) // in which nobody asks whether it answers
	defer cancel()
	now, err := etcdserverpb.NewMaintenanceClient(e.client.ActiveConnection()).Status(ctx, &etcdserverpb.StatusRequest{})
	if err != nil {
		return // whether it answers, others look
	}
	before := r.revision
	r.at, r.revision = time.Now(), now.Header.Revision
	if now.DbSizeInUse < r.most || before == 0 {
		return
	}
	_, err = e.client.Compact(ctx, before)
	switch {
	case errors.Is(err, rpctypes.ErrCompacted): // by another gateway
	case err != nil:
		s.refuses(e, fmt.Errorf("its database has %d MiB, of which most is history, and it does not compact that: %w; when it is full it takes no more: "+
			"start it with --auto-compaction-retention=1h", now.DbSizeInUse>>20, err))
	default:
		s.cfg.Log.Info("the history of etcd is compacted, which etcd does by itself with --auto-compaction-retention=1h",
			zap.String("endpoint", e.name), zap.Int64("revision", before), zap.Int64("bytes", now.DbSizeInUse))
	}
}
