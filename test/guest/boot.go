package guest

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"
)

//go:embed agent.sh
var agentScript string

// bootLimit is many times the time to boot on two idle cores.
const bootLimit = 4 * time.Minute

// A Config describes a guest. A zero field takes the default.
type Config struct {
	Share  string // directory that the guest sees as /mnt/host; required
	CPUs   int    // default 2
	Memory int    // MiB; default 3072

	// Link, if not empty, is the path of a unix socket. Over it this guest and one other have an Ethernet of their own.
	// The guest that starts first listens.
	Link   string
	Listen bool
	MAC    string // of the interface on Link

	InstructionClock bool // the guest's clock counts instructions, see instructionTime

	Systemd bool // the first process is systemd instead of a script

	Drives bool // adds an emulated NVMe drive and an ATA disk, empty, of 64 MiB each

	Fresh bool      // boot, instead of starting from a saved state
	Log   io.Writer // receives the reason if a guest had to boot nevertheless; may be nil
}

// Boot starts a guest and waits until it accepts scripts. It starts the guest from the saved state of one that booted,
// if it can. The guest's console, which has the kernel's complaints, is the file console.log in cfg.Share.
func Boot(ctx context.Context, m Image, cfg Config) (*Guest, error) {
	if err := cfg.prepare(); err != nil {
		return nil, fmt.Errorf("guest: %w", err)
	}
	g, err := start(ctx, m, cfg)
	if err != nil {
		return nil, err
	}
	if err := g.plug(cfg); err != nil {
		g.Close()
		return nil, fmt.Errorf("guest: %w", err)
	}
	return g, nil
}

// prepare fills the shared directory.
func (c Config) prepare() error {
	if err := os.MkdirAll(filepath.Join(c.Share, "run"), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(c.Share, "agent.sh"), []byte(agentScript), 0o644); err != nil {
		return err
	}
	return c.makeDrives()
}

// start starts a guest in the quickest way that works.
func start(ctx context.Context, m Image, cfg Config) (*Guest, error) {
	if cfg.Fresh {
		return boot(ctx, m, cfg)
	}
	g, err := restore(ctx, m, cfg)
	if err == nil || ctx.Err() != nil {
		return g, err
	}
	if cfg.Log != nil {
		fmt.Fprintf(cfg.Log, "guest: it boots, since it cannot start from a saved state: %v\n", err)
	}
	return boot(ctx, m, cfg)
}

// boot boots a guest without keeping its disk or memory.
func boot(ctx context.Context, m Image, cfg Config) (*Guest, error) {
	s := store{disk: "format=raw,snapshot=on,file=" + m.disk()}
	g, err := bootOn(ctx, m, cfg, s)
	if errors.Is(err, errDown) {
		g, err = bootOn(ctx, m, cfg, s) // QEMU's emulation is at fault, and seldom fails twice
	}
	return g, err
}

func bootOn(ctx context.Context, m Image, cfg Config, s store) (*Guest, error) {
	ctx, cancel := context.WithTimeout(ctx, bootLimit)
	defer cancel()
	g, err := launch(m, cfg, s)
	if err != nil {
		return nil, fmt.Errorf("guest: %w", err)
	}
	if _, err := g.await(ctx, 0, nil); err != nil {
		g.Close()
		return nil, fmt.Errorf("guest did not boot: %w\n%s", err, g.console())
	}
	return g, nil
}
