package driver

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/nvmeof-go/nvmeof/cmd/nvmeof-csi/internal/volumes"
	"github.com/nvmeof-go/nvmeof/nvmeof"
)

type controller struct {
	csi.UnimplementedControllerServer
	volumes *volumes.Set
	busy    busy
}

func (c *controller) ControllerGetCapabilities(context.Context, *csi.ControllerGetCapabilitiesRequest) (*csi.ControllerGetCapabilitiesResponse, error) {
	r := &csi.ControllerGetCapabilitiesResponse{}
	for _, t := range []csi.ControllerServiceCapability_RPC_Type{
		csi.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME, csi.ControllerServiceCapability_RPC_PUBLISH_UNPUBLISH_VOLUME,
		csi.ControllerServiceCapability_RPC_PUBLISH_READONLY, csi.ControllerServiceCapability_RPC_LIST_VOLUMES,
		csi.ControllerServiceCapability_RPC_LIST_VOLUMES_PUBLISHED_NODES, csi.ControllerServiceCapability_RPC_GET_CAPACITY,
		csi.ControllerServiceCapability_RPC_EXPAND_VOLUME, csi.ControllerServiceCapability_RPC_GET_VOLUME,
		csi.ControllerServiceCapability_RPC_SINGLE_NODE_MULTI_WRITER,
	} {
		r.Capabilities = append(r.Capabilities, &csi.ControllerServiceCapability{Type: &csi.ControllerServiceCapability_Rpc{
			Rpc: &csi.ControllerServiceCapability_RPC{Type: t}}})
	}
	return r, nil
}

func (c *controller) CreateVolume(ctx context.Context, q *csi.CreateVolumeRequest) (*csi.CreateVolumeResponse, error) {
	if err := required("name", q.GetName()); err != nil {
		return nil, err
	}
	if len(q.GetVolumeCapabilities()) == 0 {
		return nil, missing("volume capabilities")
	}
	for _, capability := range q.GetVolumeCapabilities() {
		if err := checkCapability(capability); err != nil {
			return nil, err
		}
	}
	if q.GetVolumeContentSource() != nil {
		return nil, status.Error(codes.InvalidArgument, "volumes are created empty: snapshots and clones are not supported")
	}
	if err := checkRange(q.GetCapacityRange()); err != nil {
		return nil, err
	}
	r, err := parameters(q.GetParameters())
	if err != nil {
		return nil, err
	}
	if len(q.GetMutableParameters()) > 0 {
		return nil, status.Error(codes.InvalidArgument, "mutable parameters are not supported")
	}
	end, err := c.busy.begin("name " + q.GetName())
	if err != nil {
		return nil, err
	}
	defer end()
	r.Name, r.Required, r.Limit = q.GetName(), q.GetCapacityRange().GetRequiredBytes(), q.GetCapacityRange().GetLimitBytes()
	v, err := c.volumes.Create(ctx, r)
	if err != nil {
		return nil, err
	}
	return &csi.CreateVolumeResponse{Volume: described(v)}, nil
}

func checkRange(r *csi.CapacityRange) error {
	need, limit := r.GetRequiredBytes(), r.GetLimitBytes()
	if need < 0 || limit < 0 || limit > 0 && limit < need {
		return status.Errorf(codes.InvalidArgument, "invalid capacity range: at least %d and at most %d bytes", need, limit)
	}
	return nil
}

// described returns a volume in the form of CSI.
func described(v *volumes.Volume) *csi.Volume {
	return &csi.Volume{VolumeId: v.String(), CapacityBytes: v.Size}
}

// begin parses the ID of a volume that is to be changed, and marks the volume as busy until end is called.
func (c *controller) begin(volume string) (id volumes.ID, end func(), err error) {
	if volume == "" {
		return id, nil, missing("volume ID")
	}
	if id, err = volumes.ParseID(volume); err != nil {
		return id, nil, err
	}
	end, err = c.busy.begin(volume)
	return id, end, err
}

func (c *controller) DeleteVolume(ctx context.Context, q *csi.DeleteVolumeRequest) (*csi.DeleteVolumeResponse, error) {
	id, end, err := c.begin(q.GetVolumeId())
	if errors.Is(err, volumes.ErrNotFound) {
		return &csi.DeleteVolumeResponse{}, nil
	}
	if err != nil {
		return nil, err
	}
	defer end()
	if err := c.volumes.Delete(ctx, id); err != nil {
		return nil, err
	}
	return &csi.DeleteVolumeResponse{}, nil
}

func (c *controller) ControllerPublishVolume(ctx context.Context, q *csi.ControllerPublishVolumeRequest) (*csi.ControllerPublishVolumeResponse, error) {
	if err := required("volume ID", q.GetVolumeId(), "node ID", q.GetNodeId()); err != nil {
		return nil, err
	}
	if err := checkCapability(q.GetVolumeCapability()); err != nil {
		return nil, err
	}
	id, end, err := c.begin(q.GetVolumeId())
	if err != nil {
		return nil, err
	}
	defer end()
	host, err := nvmeof.ParseNQN(q.GetNodeId())
	if err != nil {
		return nil, status.Errorf(codes.NotFound, "node %s: want the NQN of the node's host as node ID: %v", nvmeof.Printable(q.GetNodeId()), err)
	}
	mode := q.GetVolumeCapability().GetAccessMode().GetMode()
	v, err := c.volumes.Grant(ctx, id, host, grantOf(mode, q.GetReadonly()))
	if err != nil {
		return nil, err
	}
	at, err := c.volumes.Addresses(ctx, v)
	if err != nil {
		return nil, err
	}
	return &csi.ControllerPublishVolumeResponse{PublishContext: map[string]string{
		contextNQN: string(v.Subsystem), contextUUID: v.UUID.String(), contextNSID: fmt.Sprint(v.NSID), contextAddresses: strings.Join(at, ","),
	}}, nil
}

// Keys of the data that the controller passes to nodes.
const (
	contextNQN       = "nqn"
	contextUUID      = "uuid"
	contextNSID      = "nsid"
	contextAddresses = "addresses"
)

func (c *controller) ControllerUnpublishVolume(ctx context.Context, q *csi.ControllerUnpublishVolumeRequest) (*csi.ControllerUnpublishVolumeResponse, error) {
	id, end, err := c.begin(q.GetVolumeId())
	if errors.Is(err, volumes.ErrNotFound) {
		return &csi.ControllerUnpublishVolumeResponse{}, nil
	}
	if err != nil {
		return nil, err
	}
	defer end()
	host := nvmeof.NQN("")
	if q.GetNodeId() != "" {
		if host, err = nvmeof.ParseNQN(q.GetNodeId()); err != nil {
			return &csi.ControllerUnpublishVolumeResponse{}, nil // no host has that name
		}
	}
	if err := c.volumes.Withdraw(ctx, id, host); err != nil {
		return nil, err
	}
	return &csi.ControllerUnpublishVolumeResponse{}, nil
}

func (c *controller) ControllerExpandVolume(ctx context.Context, q *csi.ControllerExpandVolumeRequest) (*csi.ControllerExpandVolumeResponse, error) {
	id, end, err := c.begin(q.GetVolumeId())
	if err != nil {
		return nil, err
	}
	defer end()
	if q.GetCapacityRange() == nil {
		return nil, missing("capacity range")
	}
	if err := checkRange(q.GetCapacityRange()); err != nil {
		return nil, err
	}
	size, err := c.volumes.Grow(ctx, id, q.GetCapacityRange().GetRequiredBytes(), q.GetCapacityRange().GetLimitBytes())
	if err != nil {
		return nil, err
	}
	_, block := q.GetVolumeCapability().GetAccessType().(*csi.VolumeCapability_Block)
	return &csi.ControllerExpandVolumeResponse{CapacityBytes: size, NodeExpansionRequired: !block}, nil
}

func (c *controller) ValidateVolumeCapabilities(ctx context.Context, q *csi.ValidateVolumeCapabilitiesRequest) (*csi.ValidateVolumeCapabilitiesResponse, error) {
	if err := required("volume ID", q.GetVolumeId()); err != nil {
		return nil, err
	}
	if len(q.GetVolumeCapabilities()) == 0 {
		return nil, missing("volume capabilities")
	}
	if _, err := c.find(ctx, q.GetVolumeId()); err != nil {
		return nil, err
	}
	for _, capability := range q.GetVolumeCapabilities() {
		if why := unsupported(capability); why != "" {
			return &csi.ValidateVolumeCapabilitiesResponse{Message: why}, nil
		}
	}
	if _, err := parameters(q.GetParameters()); err != nil {
		return &csi.ValidateVolumeCapabilitiesResponse{Message: err.Error()}, nil
	}
	return &csi.ValidateVolumeCapabilitiesResponse{Confirmed: &csi.ValidateVolumeCapabilitiesResponse_Confirmed{
		VolumeContext: q.GetVolumeContext(), VolumeCapabilities: q.GetVolumeCapabilities(), Parameters: q.GetParameters()}}, nil
}

func (c *controller) find(ctx context.Context, volume string) (*volumes.Volume, error) {
	id, err := volumes.ParseID(volume)
	if err != nil {
		return nil, err
	}
	return c.volumes.Find(ctx, id)
}
