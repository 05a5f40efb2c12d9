package driver

import (
	"cmp"
	"context"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/nvmeof-go/nvmeof/cmd/nvmeof-csi/internal/volumes"
)

// there returns nil if something is mounted at a path and the volume has a device.
func (n *node) there(id volumes.ID, device, path string) error {
	there, err := n.mounts.Mounted(path)
	if err == nil && (device == "" || !there) {
		err = status.Errorf(codes.NotFound, "volume %s is not published at %s", id, path)
	}
	return err
}

// isBlock reports whether the device itself is mounted at a path.
func (n *node) isBlock(device, path string) (bool, error) {
	return n.published(device, path, false)
}

func (n *node) NodeGetVolumeStats(ctx context.Context, q *csi.NodeGetVolumeStatsRequest) (*csi.NodeGetVolumeStatsResponse, error) {
	if err := required("volume ID", q.GetVolumeId(), "volume path", q.GetVolumePath()); err != nil {
		return nil, err
	}
	id, err := volumes.ParseID(q.GetVolumeId())
	if err != nil {
		return nil, err
	}
	device, err := n.fabric.Find(id.UUID)
	if err == nil {
		err = n.there(id, device, q.GetVolumePath())
	}
	if err != nil {
		return nil, err
	}
	block, err := n.isBlock(device, q.GetVolumePath())
	if err != nil {
		return nil, err
	}
	if block {
		size, err := n.fabric.Await(ctx, device, 0)
		return &csi.NodeGetVolumeStatsResponse{Usage: []*csi.VolumeUsage{{Unit: csi.VolumeUsage_BYTES, Total: size}}}, err
	}
	u, err := n.mounts.Usage(q.GetVolumePath())
	return &csi.NodeGetVolumeStatsResponse{Usage: []*csi.VolumeUsage{
		{Unit: csi.VolumeUsage_BYTES, Total: u.Bytes, Available: u.BytesFree, Used: u.Bytes - u.BytesFree},
		{Unit: csi.VolumeUsage_INODES, Total: u.Inodes, Available: u.InodesFree, Used: u.Inodes - u.InodesFree},
	}}, err
}

func (n *node) NodeExpandVolume(ctx context.Context, q *csi.NodeExpandVolumeRequest) (*csi.NodeExpandVolumeResponse, error) {
	id, end, err := n.begin(q.GetVolumeId(), "volume path", q.GetVolumePath())
	if err != nil {
		return nil, err
	}
	defer end()
	if err := checkRange(q.GetCapacityRange()); err != nil {
		return nil, err
	}
	device, err := n.fabric.Hold(id.UUID)
	if err != nil {
		return nil, err
	}
	defer device.Close()
	if err := n.there(id, device.Path, q.GetVolumePath()); err != nil {
		return nil, err
	}
	size, err := n.fabric.Await(ctx, device.Path, q.GetCapacityRange().GetRequiredBytes())
	if err != nil {
		return nil, err
	}
	block, err := n.isBlock(device.Path, q.GetVolumePath())
	if err != nil || block {
		return &csi.NodeExpandVolumeResponse{CapacityBytes: size}, err
	}
	at := cmp.Or(q.GetStagingTargetPath(), q.GetVolumePath()) // the mount of a pod may be read-only, which prevents enlarging the file system
	if same, err := n.holds(at, device.Path); err != nil || !same {
		return nil, cmp.Or(err, status.Errorf(codes.FailedPrecondition, "the file system mounted at %[2]s is not volume %[1]s", id, at))
	}
	return &csi.NodeExpandVolumeResponse{CapacityBytes: size}, n.mounts.Grow(ctx, device.Path, at)
}
