// Command csi does what an orchestrator does, at the socket of a driver, on a machine with the kernel's initiator. It
// creates, connects, mounts, writes, expands and removes volumes, and takes one from the machine while the machine
// writes to it.
//
//	csi -socket SOCKET -files FOLDER -driver FILE [-offline]
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

func main() {
	socket := flag.String("socket", "", "socket of the driver")
	files := flag.String("files", "", "folder of the target's files")
	driver := flag.String("driver", "", "file with the process of the driver, which is started again where it ends")
	offline := flag.Bool("offline", false, "volumes are larger when they are staged again")
	flag.Parse()
	if err := run(*socket, *files, *driver, *offline); err != nil {
		fmt.Println("csi:", err)
		os.Exit(1)
	}
}

// limit is for the whole run, on an emulated machine.
const limit = 5 * time.Minute

func run(socket, files, driver string, offline bool) error {
	c, err := grpc.NewClient("unix:"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithAuthority("localhost"))
	if err != nil {
		return err
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	d := &orchestrator{csi.NewControllerClient(c), csi.NewNodeClient(c), ctx, "", driver, offline}
	info, err := d.NodeGetInfo(ctx, &csi.NodeGetInfoRequest{})
	if err != nil {
		return err
	}
	d.host = info.GetNodeId()
	for fs, size := range map[string]int64{"ext4": 64 << 20, "xfs": 320 << 20} {
		if err := d.fileSystem(fs, size); err != nil {
			return fmt.Errorf("%s: %w", fs, err)
		}
	}
	if err := d.fence(files); err != nil {
		return fmt.Errorf("a volume that is taken away: %w", err)
	}
	if err := d.both(); err != nil {
		return fmt.Errorf("two volumes of a pod: %w", err)
	}
	left, err := filepath.Glob(filepath.Join(files, "*.img"))
	if err != nil || len(left) > 0 {
		return fmt.Errorf("there are yet %q, %v", left, err)
	}
	return nil
}

// An orchestrator calls a driver.
type orchestrator struct {
	csi.ControllerClient
	csi.NodeClient
	ctx     context.Context
	host    string
	driver  string
	offline bool
}

// A volume is one that the machine uses.
type volume struct {
	id          string
	capability  *csi.VolumeCapability
	staged, pod string
}

// attach creates a volume and connects it to the machine, up to a pod.
func (o *orchestrator) attach(name string, size int64, c *csi.VolumeCapability) (v *volume, err error) {
	made, err := o.CreateVolume(o.ctx, &csi.CreateVolumeRequest{Name: name, VolumeCapabilities: []*csi.VolumeCapability{c}, CapacityRange: &csi.CapacityRange{RequiredBytes: size}})
	if err != nil {
		return nil, err
	}
	v = &volume{made.GetVolume().GetVolumeId(), c, filepath.Join("/run/csi", name, "staged"), filepath.Join("/run/csi", name, "pod")}
	return v, o.connect(v)
}

// connect publishes, stages and publishes a volume on the machine. The node's calls are made twice, as they may be
// repeated.
func (o *orchestrator) connect(v *volume) error {
	began := time.Now()
	given, err := o.ControllerPublishVolume(o.ctx, &csi.ControllerPublishVolumeRequest{VolumeId: v.id, NodeId: o.host, VolumeCapability: v.capability})
	if err != nil {
		return err
	}
	for range 2 {
		_, err = o.NodeStageVolume(o.ctx, &csi.NodeStageVolumeRequest{VolumeId: v.id, StagingTargetPath: v.staged, VolumeCapability: v.capability, PublishContext: given.GetPublishContext()})
		if err != nil {
			return err
		}
		_, err = o.NodePublishVolume(o.ctx, &csi.NodePublishVolumeRequest{VolumeId: v.id, StagingTargetPath: v.staged, TargetPath: v.pod, VolumeCapability: v.capability})
		if err != nil {
			return err
		}
	}
	fmt.Printf("# %s is at %s after %.1f s\n", v.id, v.pod, time.Since(began).Seconds())
	return nil
}

// leave unpublishes and unstages a volume on the machine, twice.
func (o *orchestrator) leave(v *volume) error {
	for range 2 {
		if _, err := o.NodeUnpublishVolume(o.ctx, &csi.NodeUnpublishVolumeRequest{VolumeId: v.id, TargetPath: v.pod}); err != nil {
			return err
		}
		if _, err := o.NodeUnstageVolume(o.ctx, &csi.NodeUnstageVolumeRequest{VolumeId: v.id, StagingTargetPath: v.staged}); err != nil {
			return err
		}
	}
	return nil
}

// take calls ControllerUnpublishVolume, by which the target takes a volume from the machine.
func (o *orchestrator) take(v *volume) error {
	_, err := o.ControllerUnpublishVolume(o.ctx, &csi.ControllerUnpublishVolumeRequest{VolumeId: v.id, NodeId: o.host})
	return err
}

func (o *orchestrator) remove(v *volume) error {
	_, err := o.DeleteVolume(o.ctx, &csi.DeleteVolumeRequest{VolumeId: v.id})
	return err
}

// kill sends the driver SIGKILL, and waits for the next one.
func (o *orchestrator) kill() error {
	text, err := os.ReadFile(o.driver)
	if err != nil {
		return err
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return err
	}
	if err := unix.Kill(pid, unix.SIGKILL); err != nil {
		return err
	}
	for {
		now, _ := os.ReadFile(o.driver)
		_, err := o.NodeGetInfo(o.ctx, &csi.NodeGetInfoRequest{})
		if err == nil && !bytes.Equal(now, text) || o.ctx.Err() != nil {
			return err
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// writeFile writes a file and syncs it.
func writeFile(path string, data []byte) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := f.Write(data); err != nil {
		return err
	}
	return f.Sync()
}

// fileSystem runs the life cycle of a volume with a file system.
func (o *orchestrator) fileSystem(fs string, size int64) error {
	c := &csi.VolumeCapability{AccessMode: &csi.VolumeCapability_AccessMode{Mode: csi.VolumeCapability_AccessMode_SINGLE_NODE_SINGLE_WRITER},
		AccessType: &csi.VolumeCapability_Mount{Mount: &csi.VolumeCapability_MountVolume{FsType: fs, MountFlags: []string{"noatime"}}}}
	v, err := o.attach(fs, size, c)
	if err != nil {
		return err
	}
	file := filepath.Join(v.pod, "file")
	if err := writeFile(file, []byte(v.id)); err != nil {
		return err
	}
	if err := o.grow(v, size); err != nil {
		return err
	}
	if err := o.leave(v); err != nil {
		return err
	}
	if _, err := os.Lstat(v.pod); err == nil {
		return fmt.Errorf("%s is there yet", v.pod)
	}
	if err := o.take(v); err != nil {
		return err
	}
	if err := o.connect(v); err != nil {
		return err
	}
	if got, err := os.ReadFile(file); err != nil || string(got) != v.id {
		return fmt.Errorf("the file has %q, %w", got, err)
	}
	for _, step := range []func(*volume) error{o.leave, o.take, o.remove, o.take, o.remove} {
		if err := step(v); err != nil {
			return err
		}
	}
	return nil
}

// both removes a pod with two volumes: the machine leaves both before either is taken from it. No connection may remain
// then that the target would have to end.
func (o *orchestrator) both() error {
	c := &csi.VolumeCapability{AccessMode: &csi.VolumeCapability_AccessMode{Mode: csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER},
		AccessType: &csi.VolumeCapability_Block{Block: &csi.VolumeCapability_BlockVolume{}}}
	var both []*volume
	for _, name := range []string{"one", "two"} {
		v, err := o.attach(name, 1<<20, c)
		if err != nil {
			return err
		}
		both = append(both, v)
	}
	for _, step := range []func(*volume) error{o.leave, o.unconnected, o.take, o.remove} {
		for _, v := range both {
			if err := step(v); err != nil {
				return err
			}
		}
	}
	return nil
}

// unconnected fails if this machine still has a connection.
func (o *orchestrator) unconnected(*volume) error {
	all, err := filepath.Glob("/sys/class/nvme/*/hostnqn")
	for _, path := range all {
		if host, _ := os.ReadFile(path); strings.TrimSpace(string(host)) == o.host {
			return fmt.Errorf("the last volume was left, and there is %s yet", filepath.Dir(path))
		}
	}
	return err
}

// grow doubles a volume that is in use.
func (o *orchestrator) grow(v *volume, size int64) error {
	total := func() int64 {
		s, err := o.NodeGetVolumeStats(o.ctx, &csi.NodeGetVolumeStatsRequest{VolumeId: v.id, VolumePath: v.pod})
		if err != nil || len(s.GetUsage()) == 0 {
			return 0
		}
		return s.GetUsage()[0].GetTotal()
	}
	before := total()
	want := &csi.CapacityRange{RequiredBytes: 2 * size}
	if _, err := o.ControllerExpandVolume(o.ctx, &csi.ControllerExpandVolumeRequest{VolumeId: v.id, CapacityRange: want}); err != nil {
		return err
	}
	began := time.Now()
	if o.offline {
		if err := errors.Join(o.leave(v), o.connect(v)); err != nil {
			return err
		}
	}
	for range 2 {
		_, err := o.NodeExpandVolume(o.ctx, &csi.NodeExpandVolumeRequest{VolumeId: v.id, VolumePath: v.pod, StagingTargetPath: v.staged, CapacityRange: want, VolumeCapability: v.capability})
		if err != nil {
			return err
		}
	}
	if after := total(); before == 0 || after < before+size*3/4 {
		return fmt.Errorf("the file system has %d bytes, and had %d", after, before)
	}
	fmt.Printf("# %s is larger after %.1f s\n", v.id, time.Since(began).Seconds())
	return nil
}
