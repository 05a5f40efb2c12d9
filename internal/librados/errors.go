package librados

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Blocklisted is the error by which a cluster refuses a client that it has blocklisted.
const Blocklisted = unix.ESHUTDOWN

// Explain adds to an error of the cluster what can be done about it.
func Explain(doing string, errno unix.Errno) error {
	hint := ""
	switch errno {
	case 0:
		return nil
	case unix.ETIMEDOUT:
		hint = ": the monitors did not answer: see whether the cluster is up, and whether the addresses in ceph.conf are right"
	case unix.EACCES, unix.EPERM:
		hint = ": the cluster does not allow that to the client: see its keyring and capabilities (profile rbd)"
	case Blocklisted:
		hint = ": the cluster has blocklisted this client (ceph osd blocklist ls)"
	}
	return fmt.Errorf("%s: %w%s", doing, errno, hint)
}
