package driver

import (
	"cmp"
	"context"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/nvmeof-go/nvmeof/cmd/nvmeof-csi/internal/volumes"
)

// device is that of a volume, at a path where something has to be mounted.
func (n *node) device(volume, path string) (string, error) {
	id, err := volumes.ParseID(volume)
	if err != nil {
		return "", err
	}
	device, err := n.fabric.Find(id.UUID)
	if err != nil {
		return "", err
	}
	there, err := n.mounts.Mounted(path)
	if err == nil && (device == "" || !there) {
		err = status.Errorf(codes.NotFound, "volume %s is not published at %s", id, path)
	}
	return device, err
}

// isBlock reports whether a path shows the device itself.
func (n *node) isBlock(device, path string) (bool, error) {
	return n.published(device, path, false)
}

func (n *node) NodeGetVolumeStats(ctx context.Context, q *csi.NodeGetVolumeStatsRequest) (*csi.NodeGetVolumeStatsResponse, error) {
	if err := required("volume ID", q.GetVolumeId(), "volume path", q.GetVolumePath()); err != nil {
		return nil, err
	}
	device, err := n.device(q.GetVolumeId(), q.GetVolumePath())
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
	_, end, err := n.begin(q.GetVolumeId(), "volume path", q.GetVolumePath())
	if err != nil {
		return nil, err
	}
	defer end()
	if err := checkRange(q.GetCapacityRange()); err != nil {
		return nil, err
	}
	device, err := n.device(q.GetVolumeId(), q.GetVolumePath())
	if err != nil {
		return nil, err
	}
	size, err := n.fabric.Await(ctx, device, q.GetCapacityRange().GetRequiredBytes())
	if err != nil {
		return nil, err
	}
	block, err := n.isBlock(device, q.GetVolumePath())
	if err == nil && !block {
		// What a pod has may be mounted to be read alone, which keeps it from growing.
		err = n.mounts.Grow(ctx, device, cmp.Or(q.GetStagingTargetPath(), q.GetVolumePath()))
	}
	return &csi.NodeExpandVolumeResponse{CapacityBytes: size}, err
}
