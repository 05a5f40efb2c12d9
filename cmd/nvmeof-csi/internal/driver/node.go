package driver

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/nvmeof-go/nvmeof/cmd/nvmeof-csi/internal/fabric"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof-csi/internal/volumes"
	"github.com/nvmeof-go/nvmeof/nvmeof"
)

type node struct {
	csi.UnimplementedNodeServer
	host   nvmeof.NQN
	fabric Fabric
	mounts Mounts
	busy   busy
}

func (n *node) NodeGetInfo(context.Context, *csi.NodeGetInfoRequest) (*csi.NodeGetInfoResponse, error) {
	return &csi.NodeGetInfoResponse{NodeId: string(n.host)}, nil
}

func (n *node) NodeGetCapabilities(context.Context, *csi.NodeGetCapabilitiesRequest) (*csi.NodeGetCapabilitiesResponse, error) {
	r := &csi.NodeGetCapabilitiesResponse{}
	for _, t := range []csi.NodeServiceCapability_RPC_Type{
		csi.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME, csi.NodeServiceCapability_RPC_GET_VOLUME_STATS,
		csi.NodeServiceCapability_RPC_EXPAND_VOLUME, csi.NodeServiceCapability_RPC_SINGLE_NODE_MULTI_WRITER,
	} {
		r.Capabilities = append(r.Capabilities, &csi.NodeServiceCapability{Type: &csi.NodeServiceCapability_Rpc{
			Rpc: &csi.NodeServiceCapability_RPC{Type: t}}})
	}
	return r, nil
}

// begin parses the ID of a volume, and marks the volume as busy until end is called. fields are pairs of names and
// values of further required fields.
func (n *node) begin(volume string, fields ...string) (id volumes.ID, end func(), err error) {
	if err := required(append([]string{"volume ID", volume}, fields...)...); err != nil {
		return id, nil, err
	}
	if id, err = volumes.ParseID(volume); err != nil {
		return id, nil, err
	}
	end, err = n.busy.begin(volume)
	return id, end, err
}

// Keys of the secrets with which a node and its target authenticate.
const (
	secretKey           = "dhchap-key"
	secretControllerKey = "dhchap-ctrl-key"
)

// diskOf returns the disk described by the data that the controller has passed.
func diskOf(id volumes.ID, publish, secrets map[string]string) (fabric.Disk, error) {
	nsid, err := strconv.Atoi(publish[contextNSID])
	if err != nil || publish[contextUUID] != id.UUID.String() || publish[contextNQN] == "" || publish[contextAddresses] == "" {
		return fabric.Disk{}, status.Error(codes.InvalidArgument, "the publish context was not returned by ControllerPublishVolume for this volume")
	}
	return fabric.Disk{UUID: id.UUID, NQN: nvmeof.NQN(publish[contextNQN]), NSID: nsid, Addresses: strings.Split(publish[contextAddresses], ","),
		Key: secrets[secretKey], ControllerKey: secrets[secretControllerKey]}, nil
}

func (n *node) NodeStageVolume(ctx context.Context, q *csi.NodeStageVolumeRequest) (*csi.NodeStageVolumeResponse, error) {
	if err := required("volume ID", q.GetVolumeId(), "staging target path", q.GetStagingTargetPath()); err != nil {
		return nil, err
	}
	if err := checkCapability(q.GetVolumeCapability()); err != nil {
		return nil, err
	}
	id, end, err := n.begin(q.GetVolumeId())
	if err != nil {
		return nil, err
	}
	defer end()
	d, err := diskOf(id, q.GetPublishContext(), q.GetSecrets())
	if err != nil {
		return nil, err
	}
	attached, err := n.fabric.Attach(ctx, d)
	if err != nil {
		return nil, err
	}
	mount := q.GetVolumeCapability().GetMount()
	if mount == nil {
		return &csi.NodeStageVolumeResponse{}, nil
	}
	device, err := n.fabric.Hold(id.UUID)
	if err != nil {
		return nil, err
	}
	defer device.Close()
	if device.Path == "" {
		return nil, fmt.Errorf("volume %s, which was %s: %w", id, attached, fabric.ErrGone)
	}
	if staged, err := n.staged(ctx, q.GetStagingTargetPath(), device.Path); err != nil || staged {
		return &csi.NodeStageVolumeResponse{}, err
	}
	fs := mount.GetFsType()
	if fs == "" {
		fs = fileSystems[0]
	}
	readOnly := slices.Contains(readers, q.GetVolumeCapability().GetAccessMode().GetMode())
	return &csi.NodeStageVolumeResponse{}, n.mounts.Format(ctx, device.Path, q.GetStagingTargetPath(), fs, mount.GetMountFlags(), readOnly)
}

// staged reports whether a device is mounted at a path. If not, it unmounts the path: what is mounted there is of a
// device that is gone.
func (n *node) staged(ctx context.Context, at, device string) (bool, error) {
	same, err := n.holds(at, device)
	if err != nil || same {
		return same, err
	}
	return false, n.mounts.Unmount(ctx, at, false)
}

// holds reports whether a device is mounted at a path.
func (n *node) holds(at, device string) (bool, error) {
	there, err := n.mounts.Mounted(at)
	if err != nil || !there {
		return false, err
	}
	return n.mounts.Holds(at, device)
}

func (n *node) NodeUnstageVolume(ctx context.Context, q *csi.NodeUnstageVolumeRequest) (*csi.NodeUnstageVolumeResponse, error) {
	id, end, err := n.begin(q.GetVolumeId(), "staging target path", q.GetStagingTargetPath())
	if err != nil {
		return nil, err
	}
	defer end()
	if err := n.unused(id, q.GetStagingTargetPath()); err != nil {
		return nil, err
	}
	if err := n.mounts.Unmount(ctx, q.GetStagingTargetPath(), false); err != nil {
		return nil, err
	}
	return &csi.NodeUnstageVolumeResponse{}, n.fabric.Detach(ctx, id.UUID)
}

// unused returns an error if a volume is mounted at other paths than its staging path: its users there would lose it
// with the connection.
func (n *node) unused(id volumes.ID, staged string) error {
	device, err := n.fabric.Find(id.UUID)
	if err != nil || device == "" {
		return err
	}
	places, err := n.mounts.Elsewhere(device, staged)
	if err == nil && len(places) > 0 {
		err = status.Errorf(codes.FailedPrecondition, "volume %s is still mounted at %s", id, nvmeof.Printable(places[0]))
	}
	return err
}

func (n *node) NodePublishVolume(ctx context.Context, q *csi.NodePublishVolumeRequest) (*csi.NodePublishVolumeResponse, error) {
	if err := required("volume ID", q.GetVolumeId(), "target path", q.GetTargetPath()); err != nil {
		return nil, err
	}
	if err := checkCapability(q.GetVolumeCapability()); err != nil {
		return nil, err
	}
	id, end, err := n.begin(q.GetVolumeId(), "staging target path", q.GetStagingTargetPath())
	if err != nil {
		return nil, err
	}
	defer end()
	device, err := n.fabric.Hold(id.UUID)
	if err != nil {
		return nil, err
	}
	defer device.Close()
	if device.Path == "" {
		return nil, status.Errorf(codes.FailedPrecondition, "volume %s is not staged", id)
	}
	mode := q.GetVolumeCapability().GetAccessMode().GetMode()
	readOnly := q.GetReadonly() || slices.Contains(readers, mode)
	source, block := device.Path, q.GetVolumeCapability().GetBlock() != nil
	if !block {
		source = q.GetStagingTargetPath()
		if there, err := n.holds(source, device.Path); err != nil || !there {
			return nil, cmp.Or(err, status.Errorf(codes.FailedPrecondition, "volume %s is not staged at %s", id, source))
		}
	}
	if block && readOnly && !n.fabric.ReadOnly(device.Path) { // a read-only mount does not prevent writes to a device
		return nil, status.Errorf(codes.FailedPrecondition, "block volume %s is published to this node for writing, and cannot be read-only for one pod: publish it to the node read-only (readOnly of the PersistentVolume, or ReadOnlyMany)", id)
	}
	there, err := n.published(source, q.GetTargetPath(), mode == csi.VolumeCapability_AccessMode_SINGLE_NODE_SINGLE_WRITER)
	switch {
	case err != nil:
		return nil, err
	case there && readOnly:
		return &csi.NodePublishVolumeResponse{}, n.mounts.Protect(ctx, q.GetTargetPath())
	case there:
		return &csi.NodePublishVolumeResponse{}, nil
	}
	return &csi.NodePublishVolumeResponse{}, n.mounts.Bind(ctx, source, q.GetTargetPath(), block, readOnly)
}

// published reports whether a volume is mounted at a path already. With alone set, it fails if the volume is mounted
// elsewhere (ReadWriteOncePod).
func (n *node) published(source, at string, alone bool) (bool, error) {
	there, elsewhere, err := n.mounts.Shown(source, at)
	if err == nil && !there && alone && len(elsewhere) > 0 {
		err = status.Errorf(codes.FailedPrecondition, "the volume may be used by one pod only, and is already published at %s", elsewhere[0])
	}
	return there, err
}

func (n *node) NodeUnpublishVolume(ctx context.Context, q *csi.NodeUnpublishVolumeRequest) (*csi.NodeUnpublishVolumeResponse, error) {
	_, end, err := n.begin(q.GetVolumeId(), "target path", q.GetTargetPath())
	if err != nil {
		return nil, err
	}
	defer end()
	return &csi.NodeUnpublishVolumeResponse{}, n.mounts.Unmount(ctx, q.GetTargetPath(), true)
}
