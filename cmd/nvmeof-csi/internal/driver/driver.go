package driver

import (
	"cmp"
	"context"
	"net"
	"sync"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/nvmeof-go/nvmeof/cmd/nvmeof-csi/internal/volumes"
	"github.com/nvmeof-go/nvmeof/nvmeof"
)

// Name is what storage classes call the driver.
const Name = "csi.nvmeof-go.github.io"

// A Config says what a driver serves.
type Config struct {
	Version string
	Log     *zap.Logger  // default: none
	Volumes *volumes.Set // nil: no controller
	Host    nvmeof.NQN   // of this node; empty: no node
	Fabric  Fabric       // required with Host
	Mounts  Mounts       // likewise

	TidyEvery time.Duration // how often connections are looked for that no volume uses; default one minute
}

// A Driver serves CSI.
type Driver struct {
	server *grpc.Server
	log    *zap.Logger
	fabric Fabric // nil: no node
	every  time.Duration
}

// New returns a driver that does not serve yet.
func New(c Config) *Driver {
	if c.Log == nil {
		c.Log = zap.NewNop()
	}
	d := &Driver{log: c.Log, every: cmp.Or(c.TidyEvery, time.Minute)}
	d.server = grpc.NewServer(grpc.UnaryInterceptor(d.call))
	csi.RegisterIdentityServer(d.server, &identity{version: c.Version, volumes: c.Volumes})
	if c.Volumes != nil {
		csi.RegisterControllerServer(d.server, &controller{volumes: c.Volumes})
	}
	if c.Host != "" {
		d.fabric = c.Fabric
		csi.RegisterNodeServer(d.server, &node{host: c.Host, fabric: c.Fabric, mounts: c.Mounts})
	}
	return d
}

// Serve serves until Stop.
func (d *Driver) Serve(l net.Listener) error {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	if d.fabric != nil {
		go d.tidy(ctx) // ends with ctx
	}
	return d.server.Serve(l)
}

// tidy has connections ended that no volume uses, until ctx ends: those of a driver that was killed, and those whose
// last volume was taken from the node after it was unstaged.
func (d *Driver) tidy(ctx context.Context) {
	for ctx.Err() == nil {
		if err := d.fabric.Tidy(ctx); err != nil {
			d.log.Warn("connections that no volume uses", zap.Error(err))
		}
		select {
		case <-ctx.Done():
		case <-time.After(d.every):
		}
	}
}

// Stop ends the driver when the calls under way have ended.
func (d *Driver) Stop() { d.server.GracefulStop() }

// call logs what changes something or fails. Requests are not logged: they have secrets.
func (d *Driver) call(ctx context.Context, request any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	answer, err := handler(ctx, request)
	if err == nil {
		d.log.Debug("call", zap.String("method", info.FullMethod), volumeField(request))
		return answer, nil
	}
	s := statusOf(err)
	d.log.Warn("call failed", zap.String("method", info.FullMethod), volumeField(request), zap.Stringer("code", s.Code()), zap.String("error", s.Message()))
	return nil, s.Err()
}

func volumeField(request any) zap.Field {
	switch r := request.(type) {
	case interface{ GetVolumeId() string }:
		return zap.String("volume", r.GetVolumeId())
	case interface{ GetName() string }:
		return zap.String("name", r.GetName())
	}
	return zap.Skip()
}

// busy are the volumes that a call is under way for: the specification has the orchestrator see to it that
// there is one at a time, and asks for ABORTED where it does not.
type busy struct{ sync.Map }

// begin returns what ends it.
func (b *busy) begin(volume string) (end func(), err error) {
	if _, under := b.LoadOrStore(volume, struct{}{}); under {
		return nil, status.Errorf(codes.Aborted, "another call for %s is under way: try again", nvmeof.Printable(volume))
	}
	return func() { b.Delete(volume) }, nil
}
