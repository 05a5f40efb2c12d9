package guest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
)

// machine returns QEMU's arguments for everything that the guest sees of its machine, except for devices that are
// plugged in later. They have no paths, since guests with the same arguments start from the same saved state.
func (c Config) machine() []string {
	args := []string{
		"-cpu", "max", "-smp", strconv.Itoa(c.cpus()), "-m", strconv.Itoa(c.memory()),
		"-display", "none", "-monitor", "none", "-no-reboot", "-nic", "none",
		"-append", "root=/dev/vda rw console=ttyS0 quiet panic=-1 maxcpus=1 schedstats=enable log_buf_len=16M " + c.first(),
		"-device", "virtio-blk-pci,drive=disk", "-device", "virtio-9p-pci,fsdev=share,mount_tag=host",
		"-device", "virtio-serial-pci", "-device", "virtserialport,chardev=agent",
		"-device", "vmgenid,guid=auto", // tells the kernel that it resumes from a saved state
	}
	args = append(args, c.clock()...)
	if c.Drives {
		args = append(args, "-device", "ide-hd,drive=ata")
	}
	return args
}

func (c Config) cpus() int {
	if c.CPUs == 0 {
		return 2
	}
	return c.CPUs
}

func (c Config) memory() int {
	if c.Memory == 0 {
		return 3072
	}
	return c.Memory
}

// first returns what the kernel's command line says about the first process, which starts the agent.
func (c Config) first() string {
	if !c.Systemd {
		return "init=/init.sh"
	}
	return "init=/lib/systemd/systemd modules_load=9pnet_virtio,9p,virtio_console " +
		"systemd.mount-extra=host:/mnt/host:9p:trans=virtio,version=9p2000.L,msize=524288 " +
		"systemd.run=\"/bin/bash /mnt/host/agent.sh\" systemd.run_success_action=poweroff"
}

// instructionTime is how long an instruction takes, with [Config.InstructionClock], as a power of two in nanoseconds: 8
// ns. While the guest is idle its clock follows this machine's. Times in the guest, and its time limits, then measure
// what it executed, whatever else this machine does and whichever code the emulator is slow with.
const instructionTime = 3

// clock returns the options for the emulation of the guest's processors: a thread for each, or one thread for all,
// which counts instructions.
func (c Config) clock() []string {
	if c.InstructionClock {
		return []string{"-accel", "tcg,thread=single", "-icount", "shift=" + strconv.Itoa(instructionTime)}
	}
	return []string{"-accel", "tcg,thread=multi"}
}

// A store says where a guest keeps its disk and its memory.
type store struct {
	disk     string // argument of QEMU's option -drive
	memory   string // path of its memory-backend-file; empty: none
	incoming bool   // the guest waits for its state
}

// arguments returns all arguments of QEMU.
func (c Config) arguments(m Image, s store) []string {
	args := append(c.machine(),
		"-name", "guest,debug-threads=on", // for Guest.ProcessorTime
		"-kernel", m.kernel(), "-initrd", m.initrd(),
		"-drive", "if=none,id=disk,"+s.disk,
		"-fsdev", "local,id=share,path="+c.Share+",security_model=none",
		"-serial", "file:"+filepath.Join(c.Share, "console.log"),
		"-chardev", "stdio,id=agent,signal=off",
		"-chardev", "socket,id=monitor,fd="+strconv.Itoa(monitorDescriptor), "-mon", "chardev=monitor,mode=control")
	if s.memory != "" {
		args = append(args, "-machine", "memory-backend=memory", "-object",
			fmt.Sprintf("memory-backend-file,id=memory,size=%dM,%s", c.memory(), s.memory))
	}
	if s.incoming {
		args = append(args, "-incoming", "defer")
	}
	if c.Drives {
		args = append(args, "-drive", "if=none,id=ata,format=raw,file="+c.drive("ata"))
	}
	return args
}

func (c Config) drive(id string) string { return filepath.Join(c.Share, id+".img") }

func (c Config) makeDrives() error {
	if !c.Drives {
		return nil
	}
	for _, id := range []string{"nvme", "ata"} {
		f, err := os.Create(c.drive(id))
		if err != nil {
			return err
		}
		if err := errors.Join(f.Truncate(64<<20), f.Close()); err != nil {
			return err
		}
	}
	return nil
}

// plug adds devices to a running guest: those whose state QEMU does not save, such as an NVMe drive, and those that
// differ between guests.
func (g *Guest) plug(c Config) error {
	if c.Drives {
		err := g.monitor.do("blockdev-add", arguments{"driver": "raw", "node-name": "nvme",
			"file": arguments{"driver": "file", "filename": c.drive("nvme")}}, nil)
		if err == nil {
			err = g.monitor.do("device_add", arguments{"driver": "nvme", "serial": "nvme", "drive": "nvme"}, nil)
		}
		if err != nil {
			return err
		}
	}
	if c.Link == "" {
		return nil
	}
	err := g.monitor.do("netdev_add", arguments{"type": "stream", "id": "link", "server": c.Listen,
		"addr": arguments{"type": "unix", "path": c.Link}}, nil)
	if err != nil {
		return err
	}
	return g.monitor.do("device_add", arguments{"driver": "virtio-net-pci", "netdev": "link", "host_mtu": 9000, "mac": c.MAC}, nil)
}
