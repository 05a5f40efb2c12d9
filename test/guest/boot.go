package guest

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"time"
)

//go:embed agent.sh
var agentScript string

// bootLimit is many times what booting takes on two idle cores.
const bootLimit = 4 * time.Minute

// Config describes a guest. A zero field takes the default.
type Config struct {
	Share  string // directory seen inside as /mnt/host; required
	CPUs   int    // default 2
	Memory int    // MiB; default 3072

	// Link, if not empty, is the path of a unix socket over which this guest and
	// one more have an Ethernet of their own. The guest that boots first listens.
	Link   string
	Listen bool
	MAC    string // of the interface on Link

	InstructionClock bool // the guest's clock counts its instructions, see instructionTime

	Systemd bool // the first process is systemd, and not a script

	Drives bool // an emulated NVMe drive and an ATA disk, empty, of 64 MiB
}

// Boot starts a guest and waits until it takes scripts. The guest's console,
// where the kernel complains, is the file console.log in cfg.Share.
func Boot(ctx context.Context, m Image, cfg Config) (*Guest, error) {
	if err := os.MkdirAll(filepath.Join(cfg.Share, "run"), 0o755); err != nil {
		return nil, fmt.Errorf("guest: %w", err)
	}
	if err := os.WriteFile(filepath.Join(cfg.Share, "agent.sh"), []byte(agentScript), 0o644); err != nil {
		return nil, fmt.Errorf("guest: %w", err)
	}
	if err := cfg.makeDrives(); err != nil {
		return nil, fmt.Errorf("guest: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, bootLimit)
	defer cancel()
	g, err := boot(ctx, m, cfg)
	if errors.Is(err, errDown) {
		g, err = boot(ctx, m, cfg) // QEMU's emulation, at fault here, seldom fails twice
	}
	return g, err
}

func boot(ctx context.Context, m Image, cfg Config) (*Guest, error) {
	g := &Guest{share: cfg.Share, exited: make(chan struct{})}
	if err := g.start(m, cfg); err != nil {
		return nil, fmt.Errorf("guest: %w", err)
	}
	if _, err := g.await(ctx, 0, nil); err != nil {
		g.Close()
		return nil, fmt.Errorf("guest did not boot: %w\n%s", err, g.console())
	}
	return g, nil
}

func (c Config) arguments(m Image) []string {
	cpus, memory := max(c.CPUs, 1), c.Memory
	if c.CPUs == 0 {
		cpus = 2
	}
	if memory == 0 {
		memory = 3072
	}
	args := []string{
		"-name", "guest,debug-threads=on", // for Guest.ProcessorTime
		"-cpu", "max", "-smp", strconv.Itoa(cpus), "-m", strconv.Itoa(memory),
		"-display", "none", "-monitor", "none", "-no-reboot",
		"-kernel", m.kernel(), "-initrd", m.initrd(),
		"-append", "root=/dev/vda rw console=ttyS0 quiet panic=-1 maxcpus=1 schedstats=enable log_buf_len=16M " + c.first(),
		"-drive", "file=" + m.disk() + ",if=virtio,format=raw,snapshot=on",
		"-virtfs", "local,path=" + c.Share + ",mount_tag=host,security_model=none",
		"-serial", "file:" + filepath.Join(c.Share, "console.log"),
		"-chardev", "stdio,id=agent,signal=off", "-device", "virtio-serial-pci", "-device", "virtserialport,chardev=agent",
	}
	args = append(args, c.clock()...)
	if c.Drives {
		for id, device := range driveDevices {
			args = append(args, "-drive", "if=none,format=raw,id="+id+",file="+c.drive(id), "-device", device+",drive="+id)
		}
	}
	if c.Link == "" {
		return append(args, "-nic", "none")
	}
	server := "off"
	if c.Listen {
		server = "on"
	}
	return append(args,
		"-netdev", "stream,id=link,server="+server+",addr.type=unix,addr.path="+c.Link,
		"-device", "virtio-net-pci,netdev=link,host_mtu=9000,mac="+c.MAC)
}

// first is what the kernel's command line says about the first process, which leads to the agent.
func (c Config) first() string {
	if !c.Systemd {
		return "init=/init.sh"
	}
	return "init=/lib/systemd/systemd modules_load=9pnet_virtio,9p,virtio_console " +
		"systemd.mount-extra=host:/mnt/host:9p:trans=virtio,version=9p2000.L,msize=524288 " +
		"systemd.run=\"/bin/bash /mnt/host/agent.sh\" systemd.run_success_action=poweroff"
}

// instructionTime is how long an instruction takes, with [Config.InstructionClock], as a
// power of two in nanoseconds: 8 ns. An idle guest's clock keeps to this machine's. Times
// in the guest then say what it executed, whatever else this machine does and whichever
// code the emulator is slow with; so do its time limits.
const instructionTime = 3

// clock chooses how the guest's processors are emulated: each by a thread, or all by one,
// which counts.
func (c Config) clock() []string {
	if c.InstructionClock {
		return []string{"-accel", "tcg,thread=single", "-icount", "shift=" + strconv.Itoa(instructionTime)}
	}
	return []string{"-accel", "tcg,thread=multi"}
}

// driveDevices are QEMU's, by the name of their image.
var driveDevices = map[string]string{"nvme": "nvme,serial=nvme", "ata": "ide-hd"}

func (c Config) drive(id string) string { return filepath.Join(c.Share, id+".img") }

func (c Config) makeDrives() error {
	if !c.Drives {
		return nil
	}
	for id := range driveDevices {
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

// start runs QEMU on a thread that lives as long as it does, since the kernel
// kills the child (Pdeathsig) when the thread that started it ends.
func (g *Guest) start(m Image, cfg Config) error {
	cmd := exec.Command("qemu-system-x86_64", cfg.arguments(m)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	stderr, err := os.Create(filepath.Join(cfg.Share, "qemu.log"))
	if err != nil {
		return err
	}
	defer stderr.Close()
	cmd.Stderr = stderr
	stdin, errIn := cmd.StdinPipe()
	stdout, errOut := cmd.StdoutPipe()
	if err := errors.Join(errIn, errOut); err != nil {
		return err
	}
	started := make(chan error)
	go func() { // ends with QEMU, which Close kills
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err != nil {
			return
		}
		_, _ = cmd.Process.Wait()
		close(g.exited)
	}()
	if err := <-started; err != nil {
		return err
	}
	g.qemu, g.requests = cmd.Process, stdin
	g.replies = make(chan reply)
	go g.read(stdout) // ends at the end of QEMU's output
	return nil
}
