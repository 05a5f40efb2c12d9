package driver

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof-csi/internal/volumes"
	"github.com/nvmeof-go/nvmeof/nvmeof/control"
)

// TestStaleDevice checks that a mount of a device that is gone is not shown to a pod, and is replaced by one of the
// new device.
func TestStaleDevice(t *testing.T) {
	r := newTargetRig(t)
	m := newMachine(t, r.addr.Next(), 1)
	s := newServices(t, r.set, m)
	c, at := mounting(writer), filepath.Join(r.dir, "staged")
	v := s.create(codes.OK, "stale", c, 1<<20, nil)
	publish := s.publish(codes.OK, v, string(m.nqn), c)
	s.stage(codes.OK, v, at, publish, c)
	device := m.mounted[at]
	m.mounted[at] = "/dev/gone"
	_, err := s.NodePublishVolume(t.Context(), &csi.NodePublishVolumeRequest{VolumeId: v, StagingTargetPath: at, TargetPath: filepath.Join(r.dir, "pod"), VolumeCapability: c})
	s.want("publish what is staged of another device", codes.FailedPrecondition, err)
	s.stage(codes.OK, v, at, publish, c)
	if m.mounted[at] != device || !m.staged[at] {
		t.Errorf("%s is mounted, want %s", m.mounted[at], device)
	}
}

// TestLeftConnection checks that a connection without a volume is ended at the start of a driver, and while it runs.
func TestLeftConnection(t *testing.T) {
	r := newTargetRig(t)
	m := newMachine(t, r.addr.Next(), 1)
	s := newServices(t, r.set, m)
	c, at := asBlock(writer), filepath.Join(r.dir, "staged")
	v := s.create(codes.OK, "left", c, 1<<20, nil)
	api := control.NewClient(r.socket())
	defer api.Close()
	for _, when := range []string{"that was there when the driver started", "of later"} {
		s.stage(codes.OK, v, at, s.publish(codes.OK, v, string(m.nqn), c), c)
		s.unpublish(codes.OK, v, string(m.nqn))
		m.mu.Lock()
		clear(m.disks) // as the kernel removes withdrawn namespaces
		m.mu.Unlock()
		if when != "of later" {
			serve(t, r, m)
		}
		for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
			var there []control.Controller
			if err := api.Do(t.Context(), "GET", "/v1/controllers", nil, nil, &there); err != nil {
				t.Fatal(err)
			}
			if len(there) == 0 {
				break
			}
			if time.Now().After(end) {
				t.Fatalf("a connection %s stays", when)
			}
		}
	}
	s.delete(codes.OK, v)
}

// TestLostDevice checks that a device that is no longer the volume's is not formatted, mounted or enlarged.
func TestLostDevice(t *testing.T) {
	r := newTargetRig(t)
	m := newMachine(t, r.addr.Next(), 1)
	s := newServices(t, r.set, m)
	for name, c := range map[string]*csi.VolumeCapability{"files": mounting(writer), "device": asBlock(writer)} {
		at, pod := filepath.Join(r.dir, name+".staged"), filepath.Join(r.dir, name+".pod")
		v := s.create(codes.OK, name, c, 1<<20, nil)
		publish := s.publish(codes.OK, v, string(m.nqn), c)
		for i, call := range []func() error{
			func() error {
				_, err := s.NodeStageVolume(t.Context(), &csi.NodeStageVolumeRequest{VolumeId: v, StagingTargetPath: at, PublishContext: publish, VolumeCapability: c})
				return err
			},
			func() error {
				_, err := s.NodePublishVolume(t.Context(), &csi.NodePublishVolumeRequest{VolumeId: v, StagingTargetPath: at, TargetPath: pod, VolumeCapability: c})
				return err
			},
			func() error {
				_, err := s.NodeExpandVolume(t.Context(), &csi.NodeExpandVolumeRequest{VolumeId: v, VolumePath: pod, StagingTargetPath: at})
				return err
			},
		} {
			if name == "device" && i == 0 {
				s.want("stage", codes.OK, call()) // which has no effect on it
				continue
			}
			lost := ""
			m.found = func(device string) {
				lost = device
				m.disks["/dev/other"] = m.disks[device]
				delete(m.disks, device)
			}
			before := len(m.mounted)
			s.want(fmt.Sprintf("call %d for %s", i, name), codes.Unavailable, call())
			if len(m.mounted) != before {
				t.Errorf("mounted is %v", m.mounted)
			}
			m.disks[lost], m.found = m.disks["/dev/other"], nil
			delete(m.disks, "/dev/other")
			s.want(fmt.Sprintf("call %d for %s again", i, name), codes.OK, call())
		}
	}
}

// TestStaleGrown checks that the file system of a device that is gone is not taken for that of the volume when the
// volume grows.
func TestStaleGrown(t *testing.T) {
	r := newTargetRig(t)
	m := newMachine(t, r.addr.Next(), 1)
	s := newServices(t, r.set, m)
	c, at := mounting(writer), filepath.Join(r.dir, "staged")
	v := s.create(codes.OK, "stale", c, 1<<20, nil)
	s.stage(codes.OK, v, at, s.publish(codes.OK, v, string(m.nqn), c), c)
	q := &csi.NodeExpandVolumeRequest{VolumeId: v, VolumePath: at}
	_, err := s.NodeExpandVolume(t.Context(), q)
	s.want("expand", codes.OK, err)
	m.mounted[at] = "/dev/gone"
	_, err = s.NodeExpandVolume(t.Context(), q)
	s.want("expand what is of another device", codes.FailedPrecondition, err)
}

// TestUnstagedEarly checks that a volume in use by a pod stays on the node, both as a file system and as a device.
func TestUnstagedEarly(t *testing.T) {
	r := newTargetRig(t)
	m := newMachine(t, r.addr.Next(), 1)
	s := newServices(t, r.set, m)
	at, pod := filepath.Join(r.dir, "staged"), filepath.Join(r.dir, "pod")
	for name, c := range map[string]*csi.VolumeCapability{"files": mounting(writer), "device": asBlock(writer)} {
		v := s.create(codes.OK, name, c, 1<<20, nil)
		s.stage(codes.OK, v, at, s.publish(codes.OK, v, string(m.nqn), c), c)
		_, err := s.NodePublishVolume(t.Context(), &csi.NodePublishVolumeRequest{VolumeId: v, StagingTargetPath: at, TargetPath: pod, VolumeCapability: c})
		s.want("publish on the node", codes.OK, err)
		unstage := func(code codes.Code) {
			_, err := s.NodeUnstageVolume(t.Context(), &csi.NodeUnstageVolumeRequest{VolumeId: v, StagingTargetPath: at})
			s.want("unstage "+name, code, err)
		}
		unstage(codes.FailedPrecondition)
		id, _ := volumes.ParseID(v)
		if d := m.disks["/dev/"+id.UUID.String()]; d == nil || d.verify() != nil {
			t.Errorf("%s: the pod has lost its volume", name)
		}
		_, err = s.NodeUnpublishVolume(t.Context(), &csi.NodeUnpublishVolumeRequest{VolumeId: v, TargetPath: pod})
		s.want("unpublish on the node", codes.OK, err)
		unstage(codes.OK)
	}
}

// TestReadOnlyDevice checks that a pod that is to read gets a device to which nothing on the node can write, or an
// error.
func TestReadOnlyDevice(t *testing.T) {
	r := newTargetRig(t)
	m := newMachine(t, r.addr.Next(), 1)
	s := newServices(t, r.set, m)
	at, pod := filepath.Join(r.dir, "staged"), filepath.Join(r.dir, "pod")
	for name, c := range map[string]*csi.VolumeCapability{"written": asBlock(writer), "read": asBlock(allRead)} {
		v := s.create(codes.OK, name, c, 1<<20, nil)
		s.stage(codes.OK, v, at, s.publish(codes.OK, v, string(m.nqn), c), c)
		want := codes.OK
		if name == "written" {
			want = codes.FailedPrecondition
		}
		q := &csi.NodePublishVolumeRequest{VolumeId: v, StagingTargetPath: at, TargetPath: pod + name, VolumeCapability: c, Readonly: true}
		_, err := s.NodePublishVolume(t.Context(), q)
		s.want("publish to be read what is "+name, want, err)
		q.Readonly = false
		_, err = s.NodePublishVolume(t.Context(), q)
		s.want("publish what is "+name, codes.OK, err)
	}
}

// TestHalfProtected checks that a mount for a reading pod is made read-only by the next call if the driver was killed
// before it had done so.
func TestHalfProtected(t *testing.T) {
	r := newTargetRig(t)
	m := newMachine(t, r.addr.Next(), 1)
	s := newServices(t, r.set, m)
	c, at, pod := mounting(writer), filepath.Join(r.dir, "staged"), filepath.Join(r.dir, "pod")
	v := s.create(codes.OK, "read", c, 1<<20, nil)
	s.stage(codes.OK, v, at, s.publish(codes.OK, v, string(m.nqn), c), c)
	m.mounted[pod] = at
	for _, readOnly := range []bool{false, true} {
		_, err := s.NodePublishVolume(t.Context(), &csi.NodePublishVolumeRequest{VolumeId: v, StagingTargetPath: at, TargetPath: pod, VolumeCapability: c, Readonly: readOnly})
		s.want("publish on the node", codes.OK, err)
		if m.guarded[pod] != readOnly {
			t.Errorf("read only %v: %v", readOnly, m.guarded[pod])
		}
	}
}

// TestSameName checks that a copy of a machine is rejected while that machine is connected, with the same host
// identifier or another one, and that the original is not disturbed.
func TestSameName(t *testing.T) {
	r := newTargetRig(t)
	m := newMachine(t, r.addr.Next(), 1)
	s := newServices(t, r.set, m)
	c, at := asBlock(writer), filepath.Join(r.dir, "staged")
	v := s.create(codes.OK, "one", c, 1<<20, nil)
	publish := s.publish(codes.OK, v, string(m.nqn), c)
	s.stage(codes.OK, v, at, publish, c)
	own := newMachine(t, r.addr.Next().Next(), 2)
	for id, want := range map[capsule.HostID]string{m.id: "busy", own.id: "refuses the host identifier"} {
		own.nqn, own.id = m.nqn, id
		_, err := newServices(t, r.set, own).NodeStageVolume(t.Context(), &csi.NodeStageVolumeRequest{VolumeId: v, StagingTargetPath: at, PublishContext: publish, VolumeCapability: c})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if err := s.disk(v).verify(); err != nil {
		t.Errorf("the first machine: %v", err)
	}
	_, err := s.NodeUnstageVolume(t.Context(), &csi.NodeUnstageVolumeRequest{VolumeId: v, StagingTargetPath: at})
	s.want("unstage", codes.OK, err)
	newServices(t, r.set, own).stage(codes.OK, v, at, publish, c)
}
