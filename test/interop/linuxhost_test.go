package interop

import (
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// A check is a script on the Linux host.
type check struct {
	name    string
	script  string
	limit   time.Duration
	more    env            // in addition to the setting's
	allowed *regexp.Regexp // lines of the kernel's log that are no complaint
}

// linuxHost: "Linux host → our target, for {memory, file} × {MTU 1500, 9000}
// × {IPv4, IPv6}: nvme discover, nvme connect -i 4 in a guest with four CPUs,
// nvme list, id-ctrl, id-ns; fio randrw with --verify=crc32c, 512 B to 1 MiB
// blocks, QD 32, 2 jobs; mkfs.ext4, mount, copy a tree, unmount, fsck, remount,
// compare checksums; nvme reset under fio; disconnect within 1 s. Nothing with
// level warning or worse from nvme or rxe in dmesg, no reconnect that the test
// did not ask for."
func linuxHost() suite {
	return suite{
		name: "LinuxHost", cells: cellsOf(settings("memory", "file"), (*lab).judge),
		verbs: []string{"memory,mtu=1500,ipv4", "file,mtu=9000,ipv6"},
	}
}

var hostChecks = []check{
	{name: "discover", script: "discover", limit: 30 * time.Second},
	{name: "connect", script: "connect", limit: time.Minute},
	{name: "identify", script: "identify", limit: 30 * time.Second},
	{name: "commands", script: "commands", limit: time.Minute},
	{name: "fio", script: "fio", limit: 3 * time.Minute,
		more: env{"blocks": "512-1M", "depth": 32, "jobs": 2, "size": 32}},
	{name: "filesystem", script: "filesystem", limit: 2 * time.Minute},
	{name: "reset", script: "reset", limit: 2 * time.Minute, allowed: askedReset},
	{name: "disconnect", script: "disconnect", limit: 30 * time.Second, more: env{"limit_ms": 1000}, allowed: cancelledKeepAlive},
}

// captured is how many checks, from the first one on, are recorded for tshark: those that send every kind of message,
// but few of each.
const captured = 4

// judge runs all checks in one setting, until one fails: the next ones would only fail as a consequence.
func (l *lab) judge(t *testing.T, s setting) {
	l.startTarget(t, s)
	l.segmentation(t, "off")
	name := strings.Join([]string{s.storage, strconv.Itoa(s.mtu), s.family}, "-")
	stop := l.startCapture(t, name, 65535)
	at := l.logEnd(t)
	for i, c := range hostChecks {
		ok := t.Run(c.name, func(t *testing.T) {
			defer func() { at = l.wantCleanLog(t, at, c.allowed) }() // also after a failed check
			l.onHost(t, c.limit, c.script, s.env().with(c.more))
		})
		if i == captured-1 || !ok && i < captured {
			capture := stop()
			t.Run("tshark", func(t *testing.T) { l.wantWellFormed(t, capture) })
			if stop = func() string { return "" }; *heads {
				stop = l.startCapture(t, name+"-heads", 128)
			} else {
				l.segmentation(t, "on")
			}
		}
		if !ok {
			break
		}
	}
	stop()
}
