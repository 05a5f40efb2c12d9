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

// Name is the name of the driver in storage classes.
const Name = "csi.nvmeof-go.github.io"

// A Config is the configuration of a driver.
type Config struct {
	Version string
	Log     *zap.Logger  // default: none
	Volumes *volumes.Set // nil: no controller service
	Host    nvmeof.NQN   // of this node; empty: no node service
	Fabric  Fabric       // required with Host
	Mounts  Mounts       // likewise

	TidyEvery time.Duration // interval at which unused and missing connections are looked for; default one minute
}

// A Driver serves CSI.
type Driver struct {
	server *grpc.Server
	log    *zap.Logger
	fabric Fabric // nil: no node service
	every  time.Duration
}

// New returns a driver that does not serve yet.
func New(c Config) *Driver {
	if c.Log == nil {
		c.Log = zap.NewNop()
	}
	d := &Driver{log: c.Log, every: cmp.Or(c.TidyEvery, time.Minute)}
	d.server = grpc.NewServer(grpc.UnaryInterceptor(d.call))
	csi.RegisterIdentityServer(d.server, newIdentity(c.Version, c.Log, c.Volumes))
	if c.Volumes != nil {
		csi.RegisterControllerServer(d.server, &controller{volumes: c.Volumes})
	}
	if c.Host != "" {
		d.fabric = c.Fabric
		csi.RegisterNodeServer(d.server, &node{host: c.Host, fabric: c.Fabric, mounts: c.Mounts})
	}
	return d
}

// Serve serves until Stop is called.
func (d *Driver) Serve(l net.Listener) error {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	if d.fabric != nil {
		go d.tidy(ctx) // ends with ctx
	}
	return d.server.Serve(l)
}

// tidy ends unused connections until ctx ends: those of a driver that was killed, and those whose last volume was
// taken from the node after it was unstaged. It also connects again by paths that were given up.
func (d *Driver) tidy(ctx context.Context) {
	for ctx.Err() == nil {
		if err := d.fabric.Tidy(ctx); err != nil {
			d.log.Warn("cannot restore connections of volumes, or end connections that no volume uses", zap.Error(err))
		}
		select {
		case <-ctx.Done():
		case <-time.After(d.every):
		}
	}
}

// Stop ends the driver when the calls in progress have ended.
func (d *Driver) Stop() { d.server.GracefulStop() }

// call logs calls that change something or fail. Requests are not logged, since they contain secrets.
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

// busy is the set of volumes with a call in progress. According to the specification the orchestrator ensures that
// there is one call at a time for a volume; otherwise the driver returns ABORTED.
type busy struct{ sync.Map }

// begin marks a volume as busy until end is called.
func (b *busy) begin(volume string) (end func(), err error) {
	if _, under := b.LoadOrStore(volume, struct{}{}); under {
		return nil, status.Errorf(codes.Aborted, "another call for %s is in progress: try again", nvmeof.Printable(volume))
	}
	return func() { b.Delete(volume) }, nil
}
