package ceph

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/google/uuid"
)

// timeout is how long a command may take, on a slow machine.
const timeout = 60 * time.Second

// A Cluster is a running cluster, which must be stopped.
type Cluster struct {
	Dir  string
	Conf string // path of its ceph.conf
	addr string // of the monitor, with a port
	fsid string
	osds int
	auth string // authentication: none or cephx
}

// Missing returns the programs that a cluster needs and this machine lacks.
func Missing() []string {
	var missing []string
	for _, name := range []string{"ceph-mon", "ceph-mgr", "ceph-osd", "ceph", "rbd", "ceph-authtool", "monmaptool"} {
		if _, err := exec.LookPath(name); err != nil {
			missing = append(missing, name)
		}
	}
	return missing
}

// Start starts a cluster that keeps everything in dir, with a monitor at addr, a loopback address with a port. The
// cluster has a pool named rbd.
func Start(dir, addr string, osds int) (*Cluster, error) {
	return begin(dir, addr, osds, "none")
}

// StartWithKeys starts a cluster whose clients need a key, and have only the capabilities of that key. Clients look for
// keys of users in dir, as ceph.client.NAME.keyring.
func StartWithKeys(dir, addr string, osds int) (*Cluster, error) {
	return begin(dir, addr, osds, "cephx")
}

func begin(dir, addr string, osds int, auth string) (*Cluster, error) {
	c := &Cluster{Dir: dir, Conf: filepath.Join(dir, "ceph.conf"), addr: addr, fsid: uuid.NewString(), osds: osds, auth: auth}
	if err := c.start(); err != nil {
		return nil, errors.Join(err, c.Stop())
	}
	return c, nil
}

func (c *Cluster) start() error {
	for _, sub := range []string{"mon", "mgr", "run", "crash"} {
		if err := os.MkdirAll(filepath.Join(c.Dir, sub), 0o700); err != nil {
			return err
		}
	}
	if err := os.WriteFile(c.Conf, []byte(c.configuration()), 0o600); err != nil {
		return err
	}
	if err := c.startMonitor(); err != nil {
		return err
	}
	for n := range c.osds {
		if err := c.makeOSD(n); err != nil {
			return err
		}
	}
	for _, args := range [][]string{{"ceph", "osd", "pool", "create", "rbd", "8", "8"}, {"rbd", "pool", "init", "rbd"}} {
		if _, err := c.Run(args[0], args[1:]...); err != nil {
			return err
		}
	}
	return nil
}

// configuration returns the cluster's configuration: little memory, OSDs that are soon marked down, and images of
// objects so small that requests cross their boundaries.
func (c *Cluster) configuration() string {
	host, _, _ := strings.Cut(c.addr, ":")
	return fmt.Sprintf(`[global]
fsid = %[1]s
mon host = [v2:%[2]s]
public addr = %[3]s
cluster addr = %[3]s
auth cluster required = %[6]s
auth service required = %[6]s
auth client required = %[6]s
keyring = %[4]s/$cluster.$name.keyring,%[4]s/keyring
run dir = %[4]s/run
admin socket = %[4]s/run/$name.$pid.asok
log file = %[4]s/$name.log
crash dir = %[4]s/crash
osd pool default size = %[5]d
osd pool default min size = 1
osd pool default pg num = 8
osd pool default pg autoscale mode = off
osd crush chooseleaf type = 0
mon allow pool size one = true
mon allow pool delete = true
mon osd down out interval = 600
mon data avail crit = 1
mon osd min down reporters = 1
osd heartbeat grace = 6
osd heartbeat interval = 2
[mon]
mon data = %[4]s/mon
[mgr]
mgr data = %[4]s/mgr
mgr modules =
[osd]
osd data = %[4]s/osd.$id
osd objectstore = bluestore
bluestore block size = 4294967296
bluestore block create = true
osd memory target = 939524096
osd class update on start = false
[client]
rbd default order = 20
`, c.fsid, c.addr, host, c.Dir, c.osds, c.auth)
}

func (c *Cluster) path(name string) string { return filepath.Join(c.Dir, name) }

func (c *Cluster) startMonitor() error {
	keys, monmap := c.path("keyring"), c.path("monmap")
	for _, args := range [][]string{
		{"ceph-authtool", "--create-keyring", keys, "--gen-key", "-n", "mon.", "--cap", "mon", "allow *"},
		{"ceph-authtool", keys, "--gen-key", "-n", "client.admin", "--cap", "mon", "allow *", "--cap", "osd", "allow *", "--cap", "mgr", "allow *"},
		{"ceph-authtool", keys, "--gen-key", "-n", "mgr.x", "--cap", "mon", "allow profile mgr", "--cap", "osd", "allow *"},
		{"monmaptool", "--create", "--fsid", c.fsid, "--addv", "a", "[v2:" + c.addr + "]", monmap},
		{"ceph-mon", "--mkfs", "-i", "a", "--monmap", monmap, "--keyring", keys, "-c", c.Conf},
	} {
		if _, err := c.Run(args[0], args[1:]...); err != nil {
			return err
		}
	}
	return errors.Join(c.launch("mon"), c.launch("mgr"))
}

func (c *Cluster) makeOSD(n int) error {
	id, unique := strconv.Itoa(n), uuid.NewString()
	if _, err := c.Run("ceph", "osd", "new", unique); err != nil {
		return err
	}
	if err := os.MkdirAll(c.path("osd."+id), 0o700); err != nil {
		return err
	}
	if _, err := c.Run("ceph", "auth", "get-or-create", "osd."+id, "mon", "allow profile osd", "osd", "allow *", "mgr", "allow profile osd", "-o", c.path("ceph.osd."+id+".keyring")); err != nil {
		return err
	}
	if _, err := c.Run("ceph-osd", "-i", id, "--mkfs", "--osd-uuid", unique, "-c", c.Conf); err != nil {
		return err
	}
	return c.launch("osd." + id)
}

// Daemons returns the names of all daemons: mon, mgr, osd.0 and so on.
func (c *Cluster) Daemons() []string {
	all := []string{"mon", "mgr"}
	for n := range c.osds {
		all = append(all, "osd."+strconv.Itoa(n))
	}
	return all
}

// StartDaemon starts a daemon that was killed, once its old process has ended.
func (c *Cluster) StartDaemon(daemon string) error {
	for end := time.Now().Add(timeout); c.Signal(daemon, 0) == nil && time.Now().Before(end); {
		time.Sleep(10 * time.Millisecond)
	}
	return c.launch(daemon)
}

// launch starts a daemon whose data exist.
func (c *Cluster) launch(daemon string) error {
	kind, id, _ := strings.Cut(daemon, ".")
	switch kind {
	case "mon":
		id = "a"
	case "mgr":
		id = "x"
	}
	_, err := c.Run("ceph-"+kind, "-i", id, "-c", c.Conf, "--pid-file", c.path(daemon+".pid"))
	return err
}

// Run runs a program with the cluster's configuration, and returns its output.
func (c *Cluster) Run(name string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(os.Environ(), "CEPH_CONF="+c.Conf)
	cmd.WaitDelay = time.Second // a daemon keeps the inherited output open
	out, err := cmd.CombinedOutput()
	if err != nil && !errors.Is(err, exec.ErrWaitDelay) {
		return "", fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, out)
	}
	return string(out), nil
}

// PID returns the process ID of a daemon: mon, mgr or osd.N.
func (c *Cluster) PID(daemon string) (int, error) {
	b, err := os.ReadFile(c.path(daemon + ".pid"))
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(string(b)))
}

// Signal sends a signal to a daemon.
func (c *Cluster) Signal(daemon string, s syscall.Signal) error {
	pid, err := c.PID(daemon)
	if err != nil {
		return err
	}
	return syscall.Kill(pid, s)
}

// Stop kills the daemons.
func (c *Cluster) Stop() error {
	files, err := filepath.Glob(c.path("*.pid"))
	for _, f := range files {
		daemon := strings.TrimSuffix(filepath.Base(f), ".pid")
		if e := c.Signal(daemon, syscall.SIGKILL); e != nil && !errors.Is(e, syscall.ESRCH) {
			err = errors.Join(err, e)
		}
	}
	return err
}
