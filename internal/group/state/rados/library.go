//go:build rbd && cgo && linux

package rados

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nvmeof-go/nvmeof/internal/librados"
)

// A libraryObject implements object.
type libraryObject struct {
	client *librados.Client
	pool   *librados.Pool
	name   string
}

// dial implements dialer.
func dial(cfg *Config, fresh []step) (object, error) {
	seconds := strconv.Itoa(int(cfg.timeout() / time.Second))
	c, err := librados.Connect(librados.Config{Conf: cfg.Conf, ID: cfg.ID, Settings: []librados.Setting{
		{Name: "rados_osd_op_timeout", Value: seconds},
		{Name: "rados_mon_op_timeout", Value: seconds},
		{Name: "client_mount_timeout", Value: seconds},
		// An operation older than this makes the client request a new map of the cluster. The default is 10 s, by which
		// time it would have been given up.
		{Name: "objecter_tick_interval", Value: "1"},
		{Name: "objecter_timeout", Value: "2"},
	}})
	if err != nil {
		return nil, err
	}
	pool, err := c.Pool(cfg.Pool, cfg.Namespace)
	if err != nil {
		c.Close()
		return nil, err
	}
	o := &libraryObject{c, pool, cfg.object()}
	if err := o.make(fresh); err != nil {
		o.close()
		return nil, err
	}
	return o, nil
}

// make creates the object if it does not exist.
func (o *libraryObject) make(fresh []step) error {
	err := o.pool.Stat(o.name)
	if !errors.Is(err, unix.ENOENT) {
		return err
	}
	var s librados.Steps
	s.Create()
	add(&s, fresh)
	if err = o.pool.Write(o.name, &s); errors.Is(err, unix.EEXIST) { // another client was faster
		err = nil
	}
	if errors.Is(err, unix.EOPNOTSUPP) {
		err = fmt.Errorf("%w: the pool cannot store keys (omap): use a replicated pool", err)
	}
	return err
}

func add(s *librados.Steps, steps []step) {
	for _, one := range steps {
		switch one.kind {
		case stepCompare:
			s.Compare(one.key, one.value)
		case stepSet:
			s.Set(one.key, one.value)
		case stepRemove:
			s.Remove(one.key)
		}
	}
}

func (o *libraryObject) write(steps []step) error {
	var s librados.Steps
	add(&s, steps)
	return o.pool.Write(o.name, &s)
}

func (o *libraryObject) read(keys []string, pages ...page) (named []entry, lists []listed, err error) {
	want := make([]librados.Listing, len(pages))
	for i, p := range pages {
		want[i] = librados.Listing{Prefix: p.prefix, After: p.after, Most: uint32(p.most)}
	}
	n, l, err := o.pool.Read(o.name, keys, want)
	for _, one := range l {
		lists = append(lists, listed{entriesOf(one.Entries), one.More})
	}
	return entriesOf(n), lists, err
}

func entriesOf(all []librados.Entry) []entry {
	entries := make([]entry, len(all))
	for i, e := range all {
		entries[i] = entry{e.Key, e.Value}
	}
	return entries
}

func (o *libraryObject) notify(message string) error { return o.pool.Notify(o.name, message) }

func (o *libraryObject) watch() (watch, error) {
	w, err := o.pool.Watch(o.name)
	if err != nil {
		return nil, err
	}
	return libraryWatch{w}, nil
}

func (o *libraryObject) close() {
	o.pool.Close()
	o.client.Close()
}

// A libraryWatch implements watch.
type libraryWatch struct{ w *librados.Watch }

func (w libraryWatch) next(most time.Duration) ([][]byte, error) { return w.w.Next(most) }
func (w libraryWatch) wake()                                     { w.w.Wake() }
func (w libraryWatch) close()                                    { w.w.Close() }
