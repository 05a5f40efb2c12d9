package driver

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/nvmeof-go/nvmeof/backend/rbd"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof-csi/internal/volumes"
)

const (
	writer    = csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER
	onePod    = csi.VolumeCapability_AccessMode_SINGLE_NODE_SINGLE_WRITER
	allRead   = csi.VolumeCapability_AccessMode_MULTI_NODE_READER_ONLY
	allWrite  = csi.VolumeCapability_AccessMode_MULTI_NODE_MULTI_WRITER
	unsupport = csi.VolumeCapability_AccessMode_UNKNOWN
)

func mounting(mode csi.VolumeCapability_AccessMode_Mode) *csi.VolumeCapability {
	return &csi.VolumeCapability{AccessMode: &csi.VolumeCapability_AccessMode{Mode: mode},
		AccessType: &csi.VolumeCapability_Mount{Mount: &csi.VolumeCapability_MountVolume{}}}
}

func asBlock(mode csi.VolumeCapability_AccessMode_Mode) *csi.VolumeCapability {
	return &csi.VolumeCapability{AccessMode: &csi.VolumeCapability_AccessMode{Mode: mode},
		AccessType: &csi.VolumeCapability_Block{Block: &csi.VolumeCapability_BlockVolume{}}}
}

// services are the services of a driver, called without a socket.
type services struct {
	*controller
	*node
	t testing.TB
	m *machine
}

func newServices(t testing.TB, set *volumes.Set, m *machine) *services {
	s := &services{controller: &controller{volumes: set}, t: t, m: m}
	if m != nil {
		s.node = &node{host: m.nqn, fabric: m, mounts: m}
	}
	return s
}

// want checks the code of a call.
func (s *services) want(what string, code codes.Code, err error) {
	s.t.Helper()
	if got := statusOf(err).Code(); got != code {
		s.t.Fatalf("%s: %v (%v), want %v", what, got, err, code)
	}
}

func (s *services) create(code codes.Code, name string, c *csi.VolumeCapability, size int64, parameters map[string]string) string {
	s.t.Helper()
	r, err := s.CreateVolume(s.t.Context(), &csi.CreateVolumeRequest{Name: name, VolumeCapabilities: []*csi.VolumeCapability{c},
		CapacityRange: &csi.CapacityRange{RequiredBytes: size}, Parameters: parameters})
	s.want("create "+name, code, err)
	return r.GetVolume().GetVolumeId()
}

func (s *services) publish(code codes.Code, volume, node string, c *csi.VolumeCapability) map[string]string {
	s.t.Helper()
	r, err := s.ControllerPublishVolume(s.t.Context(), &csi.ControllerPublishVolumeRequest{VolumeId: volume, NodeId: node, VolumeCapability: c})
	s.want("publish "+volume+" to "+node, code, err)
	return r.GetPublishContext()
}

func (s *services) unpublish(code codes.Code, volume, node string) {
	s.t.Helper()
	_, err := s.ControllerUnpublishVolume(s.t.Context(), &csi.ControllerUnpublishVolumeRequest{VolumeId: volume, NodeId: node})
	s.want("unpublish "+volume, code, err)
}

func (s *services) delete(code codes.Code, volume string) {
	s.t.Helper()
	_, err := s.DeleteVolume(s.t.Context(), &csi.DeleteVolumeRequest{VolumeId: volume})
	s.want("delete "+volume, code, err)
}

func (s *services) stage(code codes.Code, volume, at string, publish map[string]string, c *csi.VolumeCapability) {
	s.t.Helper()
	_, err := s.NodeStageVolume(s.t.Context(), &csi.NodeStageVolumeRequest{VolumeId: volume, StagingTargetPath: at, PublishContext: publish, VolumeCapability: c})
	s.want("stage "+volume, code, err)
}

// TestAccessModes checks which nodes may have a volume at the same time.
func TestAccessModes(t *testing.T) {
	r := newTargetRig(t)
	s := newServices(t, r.set, nil)
	const a, b = "nqn.2014-08.org.nvmexpress:uuid:00000000-0000-4000-8000-00000000000a", "nqn.2014-08.org.nvmexpress:uuid:00000000-0000-4000-8000-00000000000b"
	v := s.create(codes.OK, "one", mounting(writer), 1<<20, nil)
	for _, mode := range singleNode {
		for _, c := range []*csi.VolumeCapability{mounting(mode), asBlock(mode)} {
			s.publish(codes.OK, v, a, c)
			s.publish(codes.OK, v, a, c)
			s.publish(codes.FailedPrecondition, v, b, c)
			s.unpublish(codes.OK, v, b)
			s.unpublish(codes.OK, v, a)
		}
	}
	s.publish(codes.OK, v, a, mounting(allRead))
	s.publish(codes.OK, v, b, mounting(allRead))
	s.publish(codes.AlreadyExists, v, a, asBlock(allWrite))
	s.delete(codes.FailedPrecondition, v)
	if l, err := s.ListVolumes(t.Context(), &csi.ListVolumesRequest{}); err != nil || len(l.GetEntries()) != 1 || len(l.GetEntries()[0].GetStatus().GetPublishedNodeIds()) != 2 {
		t.Errorf("%v, %v", l, err)
	}
	s.unpublish(codes.OK, v, "") // from all nodes
	s.publish(codes.OK, v, a, asBlock(allWrite))
	s.publish(codes.OK, v, b, asBlock(allWrite))
	s.unpublish(codes.OK, v, "")
	s.publish(codes.InvalidArgument, v, a, mounting(allWrite))
	s.publish(codes.InvalidArgument, v, a, mounting(unsupport))
	s.publish(codes.NotFound, v, "worker-7", mounting(writer))
	s.unpublish(codes.OK, v, "worker-7")
	s.delete(codes.OK, v)
	s.delete(codes.OK, v)
	s.unpublish(codes.OK, v, a)
	s.publish(codes.NotFound, v, a, mounting(writer))
}

// TestFence checks that a node that is writing to a volume when the volume is taken from it fails, and that later
// writes have no effect.
func TestFence(t *testing.T) {
	r := newTargetRig(t)
	m := newMachine(t, r.addr.Next(), 1)
	s := newServices(t, r.set, m)
	v := s.create(codes.OK, "fenced", asBlock(writer), 1<<20, nil)
	other := s.create(codes.OK, "other", asBlock(writer), 1<<20, nil)
	for _, volume := range []string{v, other} {
		s.stage(codes.OK, volume, "/none", s.publish(codes.OK, volume, string(m.nqn), asBlock(writer)), asBlock(writer))
	}
	id, err := volumes.ParseID(v)
	if err != nil {
		t.Fatal(err)
	}
	n := m.disks["/dev/"+id.UUID.String()].namespace
	wrote := make(chan uint64, 1)
	ended := make(chan uint64)
	go func() { // ends when a write fails
		block := make([]byte, 4096)
		for i := uint64(1); ; i++ {
			for j := range 512 {
				copy(block[j*8:], []byte{byte(i), byte(i >> 8), byte(i >> 16), byte(i >> 24)})
			}
			if _, err := n.WriteAt(block, int64(i%256)*4096); err != nil {
				ended <- i
				return
			}
			if i == 100 {
				wrote <- i
			}
		}
	}()
	<-wrote
	s.unpublish(codes.OK, v, string(m.nqn))
	before, err := os.ReadFile(filepath.Join(r.dir, "fenced.img"))
	if err != nil {
		t.Fatal(err)
	}
	if last := <-ended; last <= 100 {
		t.Errorf("the write %d failed, before the volume was taken away", last)
	}
	for range 10 {
		if _, err := n.WriteAt(make([]byte, 4096), 0); err == nil {
			t.Error("a write to what was taken away succeeds")
		}
	}
	if after, err := os.ReadFile(filepath.Join(r.dir, "fenced.img")); err != nil || string(after) != string(before) {
		t.Errorf("the file changes after it was taken away: %v", err)
	}
	otherID, _ := volumes.ParseID(other)
	if err := m.disks["/dev/"+otherID.UUID.String()].verify(); err != nil {
		t.Errorf("the other volume: %v", err)
	}
}

// TestRequests checks that invalid requests, and those that differ from what exists, are rejected.
func TestRequests(t *testing.T) {
	r := newTargetRig(t)
	s := newServices(t, r.set, nil)
	c := mounting(writer)
	v := s.create(codes.OK, "memory", c, 2<<20, map[string]string{"storage": "memory", "csi.storage.k8s.io/pvc/name": "x", "blockSize": "4096"})
	s.create(codes.OK, "memory", c, 1<<20, map[string]string{"storage": "memory"})
	s.create(codes.AlreadyExists, "memory", c, 3<<20, nil)
	s.create(codes.AlreadyExists, "memory", c, 1<<20, map[string]string{"storage": "file"})
	for name, value := range map[string]string{"storage": "tape", "thick": "very", "blockSize": "520", "color": "red", "target": "none", "directory": "relative"} {
		s.create(codes.InvalidArgument, "wrong", c, 1<<20, map[string]string{name: value})
	}
	_, err := s.ControllerExpandVolume(t.Context(), &csi.ControllerExpandVolumeRequest{VolumeId: v, CapacityRange: &csi.CapacityRange{RequiredBytes: 4 << 20}})
	s.want("memory grows", codes.OutOfRange, err)
	s.delete(codes.OK, v)
	s.create(codes.InvalidArgument, "image", c, 1<<20, map[string]string{"storage": "rbd"})
	if !rbd.Built {
		s.create(codes.Internal, "image", c, 1<<20, map[string]string{"pool": "rbd"})
	}
	_, err = s.GetCapacity(t.Context(), &csi.GetCapacityRequest{Parameters: map[string]string{"pool": "rbd"}})
	s.want("capacity of a pool", codes.Unimplemented, err)
	s.create(codes.OK, "../../etc/passwd", c, 1<<20, nil)
	if files, err := filepath.Glob(filepath.Join(r.dir, "*.img")); err != nil || len(files) != 1 {
		t.Errorf("the file of an odd name is not in its folder: %q, %v", files, err)
	}
}

// TestTargetTakenOut checks that a volume on a target that was removed from the configuration is not reported as
// deleted, or as taken from its host.
func TestTargetTakenOut(t *testing.T) {
	r := newTargetRig(t)
	s := newServices(t, r.set, nil)
	c := mounting(writer)
	v := s.create(codes.OK, "kept", c, 1<<20, nil)
	s.publish(codes.OK, v, subsystemNQN, c)
	renamed, err := volumes.New(volumes.Config{Targets: []volumes.TargetConfig{{Name: "other", Control: "unix:" + r.socket(), Subsystem: subsystemNQN, Directory: r.dir}}})
	if err != nil {
		t.Fatal(err)
	}
	defer renamed.Close()
	s.controller = &controller{volumes: renamed}
	s.unpublish(codes.FailedPrecondition, v, subsystemNQN)
	s.delete(codes.FailedPrecondition, v)
	s.controller = &controller{volumes: r.set}
	s.unpublish(codes.OK, v, subsystemNQN)
	s.delete(codes.OK, v)
}

// cycle goes through the life of a volume, and repeats each step. It calls between after each step.
func (s *services) cycle(name, dir string, again int, between func()) {
	step := func(f func()) {
		for range again {
			f()
		}
		between()
	}
	c := mounting(onePod)
	staged, pod := filepath.Join(dir, name+".staged"), filepath.Join(dir, name+".pod")
	var v string
	var publish map[string]string
	step(func() { v = s.create(codes.OK, name, c, 1<<20, nil) })
	step(func() { publish = s.publish(codes.OK, v, string(s.m.nqn), c) })
	step(func() { s.stage(codes.OK, v, staged, publish, c) })
	step(func() {
		_, err := s.NodePublishVolume(s.t.Context(), &csi.NodePublishVolumeRequest{VolumeId: v, StagingTargetPath: staged, TargetPath: pod, VolumeCapability: c})
		s.want("publish on the node", codes.OK, err)
	})
	step(func() {
		r, err := s.ControllerExpandVolume(s.t.Context(), &csi.ControllerExpandVolumeRequest{VolumeId: v, CapacityRange: &csi.CapacityRange{RequiredBytes: 2 << 20}})
		s.want("expand", codes.OK, err)
		if r.GetCapacityBytes() != 2<<20 {
			s.t.Errorf("it has %d bytes", r.GetCapacityBytes())
		}
	})
	step(func() {
		_, err := s.NodeExpandVolume(s.t.Context(), &csi.NodeExpandVolumeRequest{VolumeId: v, VolumePath: pod, StagingTargetPath: staged,
			CapacityRange: &csi.CapacityRange{RequiredBytes: 2 << 20}})
		s.want("expand on the node", codes.OK, err)
	})
	step(func() {
		_, err := s.NodeUnpublishVolume(s.t.Context(), &csi.NodeUnpublishVolumeRequest{VolumeId: v, TargetPath: pod})
		s.want("unpublish on the node", codes.OK, err)
	})
	step(func() {
		_, err := s.NodeUnstageVolume(s.t.Context(), &csi.NodeUnstageVolumeRequest{VolumeId: v, StagingTargetPath: staged})
		s.want("unstage", codes.OK, err)
	})
	step(func() { s.unpublish(codes.OK, v, string(s.m.nqn)) })
	step(func() { s.delete(codes.OK, v) })
}

// wantEmpty checks that nothing is left of any volume.
func (r *targetRig) wantEmpty() {
	r.t.Helper()
	for _, s := range r.document().Subsystems {
		if len(s.Namespaces)+len(s.Hosts) > 0 {
			r.t.Errorf("there is yet\n%s", r.document().YAML())
		}
	}
	for _, pattern := range []string{"*.img", "state/*"} {
		if files, err := filepath.Glob(filepath.Join(r.dir, pattern)); err != nil || len(files) > 0 {
			r.t.Errorf("there are yet %q, %v", files, err)
		}
	}
}

// TestKilledBetween kills the target and the driver after each step: the driver must not have any state that is lost.
func TestKilledBetween(t *testing.T) {
	t.Parallel()
	r := newTargetRig(t)
	m := newMachine(t, r.addr.Next(), 1)
	s := newServices(t, r.set, m)
	s.cycle("killed", r.dir, 2, func() {
		r.kill()
		_, err := s.ListVolumes(t.Context(), &csi.ListVolumesRequest{})
		s.want("list while the target is away", codes.Unavailable, err)
		r.start()
		m.reconnect(t)
		s.controller = &controller{volumes: r.set}
		s.node = &node{host: m.nqn, fabric: m, mounts: m}
	})
	r.wantEmpty()
}

// TestImages does the same with images of a running cluster.
func TestImages(t *testing.T) {
	if *conf == "" {
		t.Skip("needs a Ceph cluster with a pool rbd, and -tags rbd: -ceph.conf FILE")
	}
	r := newTargetRig(t)
	set, err := volumes.New(volumes.Config{Targets: []volumes.TargetConfig{{Name: "t", Control: "unix:" + r.socket(), Subsystem: subsystemNQN, Pool: "rbd", CephConf: *conf}}})
	if err != nil {
		t.Fatal(err)
	}
	defer set.Close()
	m := newMachine(t, r.addr.Next(), 1)
	s := newServices(t, set, m)
	s.cycle(fmt.Sprintf("image-%d", os.Getpid()), r.dir, 2, func() {})
	s.cycle(fmt.Sprintf("image-%d", os.Getpid()), r.dir, 1, func() {})
	r.wantEmpty()
}

// TestKilledWithin kills the target while it handles requests of the controller, at times derived from a seed.
// Repeating the request must be enough.
func TestKilledWithin(t *testing.T) {
	t.Parallel()
	rounds := 2
	if *long {
		rounds = 100
	}
	r := newTargetRig(t)
	s := newServices(t, r.set, nil)
	const node = "nqn.2014-08.org.nvmexpress:uuid:00000000-0000-4000-8000-00000000000a"
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	within := func(call func(context.Context) error) {
		ended := make(chan error, 1)
		go func() { ended <- call(t.Context()) }() // ends with the target at the latest
		time.Sleep(time.Duration(random.IntN(3000)) * time.Microsecond)
		r.kill()
		<-ended
		r.start()
		s.want("the same again", codes.OK, call(t.Context()))
	}
	var v string
	for i := range rounds {
		name := fmt.Sprintf("round-%d", i)
		within(func(ctx context.Context) error {
			q, err := s.CreateVolume(ctx, &csi.CreateVolumeRequest{Name: name, VolumeCapabilities: []*csi.VolumeCapability{mounting(writer)}, CapacityRange: &csi.CapacityRange{RequiredBytes: 1 << 20}})
			v = q.GetVolume().GetVolumeId()
			return err
		})
		within(func(ctx context.Context) error {
			_, err := s.ControllerPublishVolume(ctx, &csi.ControllerPublishVolumeRequest{VolumeId: v, NodeId: node, VolumeCapability: mounting(writer)})
			return err
		})
		within(func(ctx context.Context) error {
			_, err := s.ControllerExpandVolume(ctx, &csi.ControllerExpandVolumeRequest{VolumeId: v, CapacityRange: &csi.CapacityRange{RequiredBytes: 2 << 20}})
			return err
		})
		within(func(ctx context.Context) error {
			_, err := s.ControllerUnpublishVolume(ctx, &csi.ControllerUnpublishVolumeRequest{VolumeId: v, NodeId: node})
			return err
		})
		within(func(ctx context.Context) error {
			_, err := s.DeleteVolume(ctx, &csi.DeleteVolumeRequest{VolumeId: v})
			return err
		})
	}
	r.wantEmpty()
}

// TestAtOnce checks that two drivers, each with many concurrent requests for the same and for other volumes, create
// each volume once.
func TestAtOnce(t *testing.T) {
	t.Parallel()
	r := newTargetRig(t)
	drivers := []*services{newServices(t, r.set, nil), newServices(t, r.set, nil)}
	const names = 10
	ids := make([][names]string, len(drivers)*2)
	var tasks sync.WaitGroup
	for i := range ids {
		for n := range names {
			tasks.Go(func() {
				for {
					q, err := drivers[i/2].CreateVolume(t.Context(), &csi.CreateVolumeRequest{Name: fmt.Sprintf("same-%d", n),
						VolumeCapabilities: []*csi.VolumeCapability{mounting(writer)}, CapacityRange: &csi.CapacityRange{RequiredBytes: 1 << 20}})
					if code := statusOf(err).Code(); code == codes.Aborted { // while another call creates it
						time.Sleep(time.Millisecond)
						continue
					}
					if err != nil {
						t.Error(err)
					}
					ids[i][n] = q.GetVolume().GetVolumeId()
					return
				}
			})
		}
	}
	tasks.Wait()
	if n := len(r.document().Subsystems[0].Namespaces); n != names {
		t.Errorf("%d namespaces, want %d", n, names)
	}
	for _, of := range ids {
		if of != ids[0] {
			t.Errorf("%v and %v", of, ids[0])
		}
	}
	token := ""
	for pages := range names {
		l, err := drivers[0].ListVolumes(t.Context(), &csi.ListVolumesRequest{MaxEntries: 3, StartingToken: token})
		if err != nil {
			t.Fatal(err)
		}
		if token = l.GetNextToken(); token == "" {
			if pages != 3 || len(l.GetEntries()) != 1 {
				t.Errorf("page %d is the last, with %d", pages, len(l.GetEntries()))
			}
			break
		}
	}
	for _, v := range ids[0] {
		for _, d := range drivers {
			tasks.Go(func() {
				if _, err := d.DeleteVolume(t.Context(), &csi.DeleteVolumeRequest{VolumeId: v}); err != nil && status.Code(err) != codes.Aborted {
					t.Error(err)
				}
			})
		}
	}
	tasks.Wait()
	r.wantEmpty()
}
