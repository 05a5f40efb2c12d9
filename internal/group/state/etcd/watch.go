package etcd

import (
	"context"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// sayEvery is how often a watch calls changed without an event.
const sayEvery = 10 * time.Second

// Watch implements state.Store. Whenever events may have been missed, it calls changed once the new watch has begun.
func (s *Store) Watch(ctx context.Context, prefix string, changed func()) error {
	if err := s.ready(ctx); err != nil {
		return err
	}
	changed()
	for {
		s.watch(ctx, prefix, changed)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-s.ctx.Done():
			return errClosed
		case <-time.After(pause):
		}
	}
}

// watch ends with the endpoint, or when etcd ends the watch.
func (s *Store) watch(ctx context.Context, prefix string, changed func()) {
	e, err := s.use()
	if err != nil {
		return
	}
	defer s.release(e)
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	defer cancel()
	defer context.AfterFunc(e.ctx, cancel)() // ends with the watch
	if s.cfg.User != "" && !s.login.lasts() {
		return // etcd would end it at once
	}
	events := e.client.Watch(ctx, s.prefix+prefix, clientv3.WithPrefix(), clientv3.WithCreatedNotify())
	say := time.NewTicker(sayEvery)
	defer say.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case r, open := <-events:
			if !open {
				return
			}
			if err := r.Err(); err != nil {
				s.cfg.Log.Info("etcd ended a watch; starting it again", zap.String("endpoint", e.name), zap.Error(err))
				return
			}
		case <-say.C:
		}
		drain(events)
		changed()
	}
}

// drain receives the further events that one call of changed covers. It leaves a closed watch as it is.
func drain(events clientv3.WatchChan) {
	for {
		select {
		case r, open := <-events:
			if !open || r.Err() != nil {
				return
			}
		default:
			return
		}
	}
}
