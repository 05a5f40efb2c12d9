// Command nvmeof-csi is a CSI driver: it provides volumes for Kubernetes and other orchestrators as namespaces of
// nvmeof targets. docs/csi.md describes its use.
//
// The packages below internal are volumes, which manages the volumes through the control API of targets; driver, which
// implements the services of CSI with it; and fabric and mounts, which use the kernel of a node.
package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"

	"github.com/google/uuid"
	"github.com/spf13/cobra"
	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"github.com/nvmeof-go/nvmeof/cmd/nvmeof-csi/internal/driver"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof-csi/internal/fabric"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof-csi/internal/mounts"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof-csi/internal/volumes"
	"github.com/nvmeof-go/nvmeof/internal/socketfile"
	"github.com/nvmeof-go/nvmeof/nvmeof"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, unix.SIGTERM)
	defer stop()
	if err := command().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "nvmeof-csi:", err)
		os.Exit(1)
	}
}

// options holds the flags.
type options struct {
	endpoint, config string
	node, attach     bool
	hostNQN, hostID  string
	nvme             string // the directory of the two files
	loss             int    // seconds
	verbose          bool
}

func command() *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:   "nvmeof-csi --endpoint unix:///csi/csi.sock [--config FILE] [--node]",
		Short: "CSI driver: volumes as namespaces of nvmeof targets",
		Long: `Serve CSI on a unix socket. With --config it is the controller, which creates
volumes on the targets that the file names and publishes them to nodes. With
--node it is the node, which connects to them with the kernel's initiator
(nvme-rdma) or nvmeof attach, and mounts them.`,
		Args: cobra.NoArgs, Version: version(), SilenceUsage: true, SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context()) },
	}
	cmd.SetVersionTemplate("{{.Version}}\n")
	f := cmd.Flags()
	f.StringVar(&o.endpoint, "endpoint", "unix:///csi/csi.sock", "unix socket to serve on")
	f.StringVar(&o.config, "config", "", "run the controller, with the targets that this file lists")
	f.BoolVar(&o.node, "node", false, "run the node service")
	f.BoolVar(&o.attach, "attach", false, "connect with nvmeof attach and nbd-client, for kernels without NVMe over RDMA")
	f.StringVar(&o.nvme, "nvme-dir", "/etc/nvme", "directory with the machine's hostnqn and hostid files")
	f.StringVar(&o.hostNQN, "hostnqn", "", "NQN of this host (default: from the file hostnqn)")
	f.StringVar(&o.hostID, "hostid", "", "identifier of this host, a UUID (default: from the file hostid, or the UUID in the NQN)")
	f.IntVar(&o.loss, "ctrl-loss-tmo", 600, "seconds after which a node gives up a lost target, and its pods lose their volumes; -1: never")
	f.BoolVarP(&o.verbose, "verbose", "v", false, "log all calls, not only those that fail")
	return cmd
}

// version returns the version of the commit from which the program was built.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" {
		return "devel"
	}
	return info.Main.Version
}

// run serves until ctx ends.
func (o *options) run(ctx context.Context) error {
	c, err := o.driver()
	if err != nil {
		return err
	}
	l, err := listen(o.endpoint)
	if err != nil {
		return err
	}
	d := driver.New(c)
	context.AfterFunc(ctx, d.Stop) // ends when the calls in progress have ended
	c.Log.Info("serving", zap.String("endpoint", o.endpoint), zap.String("version", c.Version), zap.Bool("controller", c.Volumes != nil), zap.String("node", string(c.Host)))
	return d.Serve(l)
}

// driver returns the configuration of the driver.
func (o *options) driver() (c driver.Config, err error) {
	c.Version = version()
	level := zap.InfoLevel
	if o.verbose {
		level = zap.DebugLevel
	}
	z := zap.NewProductionConfig()
	z.Level, z.DisableStacktrace, z.DisableCaller = zap.NewAtomicLevelAt(level), true, true
	if c.Log, err = z.Build(); err != nil {
		return c, err
	}
	if o.config == "" && !o.node {
		return c, errors.New("nothing to serve: give --config FILE for the controller or --node for a node")
	}
	if o.config != "" {
		if c.Volumes, err = volumes.Read(o.config); err != nil {
			return c, err
		}
	}
	if !o.node {
		return c, nil
	}
	if o.node && (o.loss < -1 || o.loss == 0) {
		return c, fmt.Errorf("--ctrl-loss-tmo %d: want seconds, or -1 for no limit", o.loss)
	}
	host, id, err := o.identity()
	if err != nil {
		return c, err
	}
	c.Host, c.Fabric, c.Mounts = host, &fabric.Kernel{Host: host, HostID: id, Loss: o.loss}, mounts.New()
	if o.attach {
		c.Fabric = &fabric.Attached{Host: host, HostID: id, Loss: o.loss}
	}
	return c, nil
}

// identity returns the identity of the node. It is the same as nvme-cli's, because the kernel requires each NQN to
// have only one host identifier.
func (o *options) identity() (nvmeof.NQN, uuid.UUID, error) {
	name, err := orFile(o.hostNQN, o.nvme+"/hostnqn")
	if err != nil {
		return "", uuid.UUID{}, fmt.Errorf("%w: create it with nvme gen-hostnqn, or give --hostnqn", err)
	}
	host, err := nvmeof.ParseNQN(name)
	if err != nil {
		return "", uuid.UUID{}, fmt.Errorf("NQN of the host: %w", err)
	}
	text, err := orFile(o.hostID, o.nvme+"/hostid")
	if errors.Is(err, fs.ErrNotExist) {
		_, text, _ = strings.Cut(name, ":uuid:")
	} else if err != nil {
		return "", uuid.UUID{}, err
	}
	id, err := uuid.Parse(text)
	if err != nil {
		return "", id, fmt.Errorf("identifier of the host: %w; give --hostid", err)
	}
	return host, id, nil
}

// orFile returns the value of a flag, or else the content of a file.
func orFile(given, file string) (string, error) {
	if given != "" {
		return given, nil
	}
	text, err := os.ReadFile(file)
	return strings.TrimSpace(string(text)), err
}

// listen listens on a unix socket, and replaces one that no process serves any more.
func listen(endpoint string) (net.Listener, error) {
	path, isUnix := strings.CutPrefix(endpoint, "unix:")
	if path = strings.Replace(path, "//", "", 1); !isUnix || path == "" {
		return nil, fmt.Errorf("--endpoint %s: want unix:PATH", endpoint)
	}
	return socketfile.NewListener(path)
}
