package driver

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/nvmeof-go/nvmeof/cmd/nvmeof-csi/internal/volumes"
)

// parameters parses the parameters of a storage class. It ignores those of the sidecars, whose names contain a slash.
func parameters(all map[string]string) (r volumes.Request, err error) {
	for name, value := range all {
		switch name {
		case "target":
			r.Target = value
		case "storage":
			if r.Kind = volumes.Kind(value); r.Kind != volumes.File && r.Kind != volumes.RBD && r.Kind != volumes.Memory {
				err = status.Errorf(codes.InvalidArgument, "parameter storage is %q: want file, rbd or memory", value)
			}
		case "pool":
			r.Pool = value
		case "directory":
			r.Directory = value
		case "thick":
			if r.Thick, err = strconv.ParseBool(value); err != nil {
				err = status.Errorf(codes.InvalidArgument, "parameter thick is %q: want true or false", value)
			}
		case "blockSize":
			if r.BlockSize, err = strconv.Atoi(value); err != nil || r.BlockSize != 512 && r.BlockSize != 4096 {
				err = status.Errorf(codes.InvalidArgument, "parameter blockSize is %q: want 512 or 4096", value)
			}
		default:
			if !strings.Contains(name, "/") {
				err = status.Errorf(codes.InvalidArgument, "unknown parameter %q: want target, storage, directory, pool, thick or blockSize", name)
			}
		}
		if err != nil {
			return r, err
		}
	}
	return r, nil
}

// ListVolumes lists the volumes sorted by ID. A token is the last ID of the previous page; that volume need not exist
// any more.
func (c *controller) ListVolumes(ctx context.Context, q *csi.ListVolumesRequest) (*csi.ListVolumesResponse, error) {
	if q.GetMaxEntries() < 0 {
		return nil, status.Errorf(codes.InvalidArgument, "max_entries is %d: want at least 0", q.GetMaxEntries())
	}
	if token := q.GetStartingToken(); token != "" {
		if _, err := volumes.ParseID(token); err != nil {
			return nil, status.Error(codes.Aborted, "the starting token was not returned by this driver: list again without a token")
		}
	}
	all, err := c.volumes.List(ctx)
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(v *volumes.Volume) bool { return v.String() <= q.GetStartingToken() })
	r := &csi.ListVolumesResponse{}
	for _, v := range all {
		if n := int(q.GetMaxEntries()); n > 0 && len(r.Entries) == n {
			r.NextToken = r.Entries[n-1].GetVolume().GetVolumeId()
			break
		}
		r.Entries = append(r.Entries, &csi.ListVolumesResponse_Entry{Volume: described(v),
			Status: &csi.ListVolumesResponse_VolumeStatus{PublishedNodeIds: nodesOf(v)}})
	}
	return r, nil
}

func nodesOf(v *volumes.Volume) (ids []string) {
	for _, h := range v.Hosts {
		ids = append(ids, string(h))
	}
	return ids
}

func (c *controller) ControllerGetVolume(ctx context.Context, q *csi.ControllerGetVolumeRequest) (*csi.ControllerGetVolumeResponse, error) {
	if err := required("volume ID", q.GetVolumeId()); err != nil {
		return nil, err
	}
	v, err := c.find(ctx, q.GetVolumeId())
	if err != nil {
		return nil, err
	}
	return &csi.ControllerGetVolumeResponse{Volume: described(v),
		Status: &csi.ControllerGetVolumeResponse_VolumeStatus{PublishedNodeIds: nodesOf(v)}}, nil
}

func (c *controller) GetCapacity(ctx context.Context, q *csi.GetCapacityRequest) (*csi.GetCapacityResponse, error) {
	for _, capability := range q.GetVolumeCapabilities() {
		if unsupported(capability) != "" {
			return &csi.GetCapacityResponse{}, nil
		}
	}
	r, err := parameters(q.GetParameters())
	if err != nil {
		return nil, err
	}
	free, err := c.volumes.Free(ctx, r)
	return &csi.GetCapacityResponse{AvailableCapacity: free}, err
}
