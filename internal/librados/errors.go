package librados

import (
	"cmp"
	"fmt"

	"golang.org/x/sys/unix"
)

// Blocklisted is the error with which a cluster refuses a blocklisted client.
const Blocklisted = unix.ESHUTDOWN

// Explain adds advice to an error of the cluster.
func Explain(doing string, errno unix.Errno) error {
	hint := ""
	switch errno {
	case 0:
		return nil
	case unix.ETIMEDOUT:
		hint = ": the monitors did not answer: check that the cluster is running and that the addresses in ceph.conf are correct"
	case unix.EACCES, unix.EPERM:
		hint = ": the client is not permitted to do this: check its keyring and its capabilities (profile rbd)"
	case Blocklisted:
		hint = ": the cluster has blocklisted this client (ceph osd blocklist ls)"
	}
	return fmt.Errorf("%s: %w%s", doing, errno, hint)
}

// explainConnect is Explain for a client that could not connect.
func explainConnect(conf, id string, errno unix.Errno) error {
	id = "client." + cmp.Or(id, "admin")
	switch {
	case errno == unix.ENOENT && conf == "":
		return fmt.Errorf("connect to the cluster as %s: %w: there is no configuration, or no keyring of %[1]s, where Ceph's programs look for it (/etc/ceph, CEPH_CONF): name the file with conf, and the client with id", id, errno)
	case errno == unix.ENOENT:
		return fmt.Errorf("connect to the cluster as %s: %w: %s is missing, or the keyring of %[1]s", id, errno, conf)
	}
	return Explain("connect to the cluster as "+id, errno)
}

// explainPool is Explain for a pool.
func explainPool(pool string, errno unix.Errno) error {
	if errno == unix.ENOENT {
		return fmt.Errorf("pool %s: %w: there is no such pool (ceph osd pool ls)", pool, errno)
	}
	return Explain("pool "+pool, errno)
}
