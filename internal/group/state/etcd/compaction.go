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
	compactEvery = 10 * time.Minute // interval of the checks
	compactAbove = 512 << 20        // bytes in use, a quarter of etcd's default limit
)

// A compaction limits the size of etcd's database, which keeps every value that was ever put until its history is
// compacted. Without compaction heartbeats fill it within days. A full database accepts no more heartbeats: then no
// group moves, and leases end.
type compaction struct {
	every time.Duration // constant
	most  int64         // constant

	at       time.Time // of the last check
	revision int64     // at that time
}

// check is called with an endpoint that answers. If the database is large, it compacts what was history at the last
// check.
func (c *compaction) check(s *Store, e *endpoint) {
	if time.Since(c.at) < c.every {
		return
	}
	ctx, cancel := context.WithTimeout(e.ctx, answersIn) // meanwhile the endpoint is not checked
	defer cancel()
	now, err := etcdserverpb.NewMaintenanceClient(e.client.ActiveConnection()).Status(ctx, &etcdserverpb.StatusRequest{})
	if err != nil {
		return // ask checks whether it answers
	}
	before := c.revision
	c.at, c.revision = time.Now(), now.Header.Revision
	if now.DbSizeInUse < c.most || before == 0 {
		return
	}
	_, err = e.client.Compact(ctx, before)
	switch {
	case errors.Is(err, rpctypes.ErrCompacted): // by another gateway
	case err != nil:
		s.refuses(e, fmt.Errorf("its database has %d MiB, mostly history that is not compacted: %w; etcd refuses writes when the database is full: "+
			"start etcd with --auto-compaction-retention=1h", now.DbSizeInUse>>20, err))
	default:
		s.cfg.Log.Info("compacted the history of etcd; etcd does this itself if started with --auto-compaction-retention=1h",
			zap.String("endpoint", e.name), zap.Int64("revision", before), zap.Int64("bytes", now.DbSizeInUse))
	}
}
