package driver

import (
	"context"
	"sync"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"go.uber.org/zap"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/nvmeof-go/nvmeof/cmd/nvmeof-csi/internal/volumes"
)

type identity struct {
	csi.UnimplementedIdentityServer
	version string
	volumes *volumes.Set // nil: no controller service
	log     *zap.Logger

	mu   sync.Mutex
	away map[string]string // why a target did not answer the last time, by its name
}

func newIdentity(version string, log *zap.Logger, set *volumes.Set) *identity {
	return &identity{version: version, volumes: set, log: log, away: map[string]string{}}
}

func (i *identity) GetPluginInfo(context.Context, *csi.GetPluginInfoRequest) (*csi.GetPluginInfoResponse, error) {
	return &csi.GetPluginInfoResponse{Name: Name, VendorVersion: i.version}, nil
}

func (i *identity) GetPluginCapabilities(context.Context, *csi.GetPluginCapabilitiesRequest) (*csi.GetPluginCapabilitiesResponse, error) {
	expansion := &csi.PluginCapability{Type: &csi.PluginCapability_VolumeExpansion_{
		VolumeExpansion: &csi.PluginCapability_VolumeExpansion{Type: csi.PluginCapability_VolumeExpansion_ONLINE}}}
	r := &csi.GetPluginCapabilitiesResponse{Capabilities: []*csi.PluginCapability{expansion}}
	if i.volumes != nil {
		r.Capabilities = append(r.Capabilities, &csi.PluginCapability{Type: &csi.PluginCapability_Service_{
			Service: &csi.PluginCapability_Service{Type: csi.PluginCapability_Service_CONTROLLER_SERVICE}}})
	}
	return r, nil
}

// Probe queries the targets. If one answers, the driver is ready: the sidecars wait for that when they are started, and
// one target must not stop the volumes of the others. If none answers, the driver reports that it is not ready, but no
// error, which would cause a restart, unless all refuse it.
func (i *identity) Probe(ctx context.Context, _ *csi.ProbeRequest) (*csi.ProbeResponse, error) {
	ready := true
	if i.volumes != nil {
		if err := i.volumes.Probe(ctx, i.probed); err != nil {
			if c := statusOf(err).Code(); c != codes.Unavailable && c != codes.DeadlineExceeded {
				return nil, status.Error(codes.FailedPrecondition, err.Error())
			}
			ready = false
		}
	}
	return &csi.ProbeResponse{Ready: wrapperspb.Bool(ready)}, nil
}

// probed logs that a target does not answer, or that it does again.
func (i *identity) probed(target string, err error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	was := i.away[target]
	switch {
	case err == nil && was != "":
		i.log.Info("a target answers again", zap.String("target", target))
		delete(i.away, target)
	case err != nil && was != err.Error():
		i.log.Warn("a target does not answer, or refuses the driver: its volumes are neither created nor published", zap.String("target", target), zap.Error(err))
		i.away[target] = err.Error()
	}
}
