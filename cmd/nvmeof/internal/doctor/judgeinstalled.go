package doctor

import "fmt"

// judgeInstalled finds incomplete installations and services that still run the version before an upgrade.
func (r *Report) judgeInstalled() {
	i := &r.Installed
	if i.How == installedContainer && i.Network == networkOwn {
		r.add(Note, "this container has a network of its own: hosts reach a target in it only if its address is routed to them, with UDP port 4791", "podman run --network host; in Kubernetes: hostNetwork: true")
	}
	for _, u := range i.Units {
		if u.Replaced {
			r.add(Note, u.Name+" runs a version that an upgrade has replaced", "systemctl restart "+u.Name+whileUnused(u.Name))
		}
		if u.Name != targetUnit {
			continue
		}
		switch {
		case i.Example == exampleSame:
			r.add(Note, fmt.Sprintf("/%s is the example still, with addresses and hosts of nobody", conffile),
				fmt.Sprintf("edit it; nvmeof target check /%s; systemctl enable --now %s", conffile, targetUnit))
		case i.Example == exampleChanged && u.Running && !u.Enabled:
			r.add(Note, targetUnit+" runs, and will not after the machine has been started again", "systemctl enable "+targetUnit)
		case u.Enabled && !u.Running:
			r.add(Note, targetUnit+" is enabled and does not run", "journalctl -u "+targetUnit+"; systemctl start "+targetUnit)
		}
	}
}

// judgeCeph finds what is missing for images and groups of Ceph.
func (r *Report) judgeCeph() {
	b := &r.Build
	const install = "apt-get install librbd1 librados2 (Fedora: librbd1 librados2)"
	severity := Note
	if r.Installed.Ceph {
		severity = Problem
	}
	switch {
	case !b.Ceph && r.Installed.Ceph:
		r.add(Problem, "/"+conffile+" has images or a group of a Ceph cluster, and this program was built without them",
			"install the package nvmeof-verbs, or CGO_ENABLED=1 go build -tags rbd")
	case b.Ceph && b.CephLibraries == LibrariesMissing:
		r.add(severity, "librbd or librados is not installed: images and groups of Ceph cannot be used", install)
	}
}

const targetUnit = "nvmeof-target.service"

// whileUnused returns the condition for a restart: connections end, and with them their disks.
func whileUnused(unit string) string {
	if unit == targetUnit {
		return ""
	}
	return ", when nobody uses its disks"
}
