package doctor

import "fmt"

// judgeInstalled finds incomplete installations and services that still run the version before an upgrade.
func (r *Report) judgeInstalled() {
	i := &r.Installed
	if i.How == installedContainer && i.Network == networkOwn {
		r.add(Note, "this container has its own network: hosts can reach a target in it only if they can route packets to its address, with UDP port 4791 open", "podman run --network host; in Kubernetes: hostNetwork: true")
	}
	for _, u := range i.Units {
		if u.Replaced {
			r.add(Note, u.Name+" still runs the version before an upgrade", "systemctl restart "+u.Name+whileUnused(u.Name))
		}
		if u.Name != targetUnit {
			continue
		}
		switch {
		case i.Example == exampleSame:
			r.add(Note, fmt.Sprintf("/%s is still the example of the package, with placeholder addresses and hosts", conffile),
				fmt.Sprintf("edit it; nvmeof target check /%s; systemctl enable --now %s", conffile, targetUnit))
		case i.Example == exampleChanged && u.Running && !u.Enabled:
			r.add(Note, targetUnit+" runs but is not enabled: it does not start when the machine boots", "systemctl enable "+targetUnit)
		case u.Enabled && !u.Running:
			r.add(Note, targetUnit+" is enabled but does not run", "journalctl -u "+targetUnit+"; systemctl start "+targetUnit)
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
		r.add(Problem, "/"+conffile+" uses Ceph images or a group in Ceph, but this program was built without Ceph support",
			"install the package nvmeof-verbs, or CGO_ENABLED=1 go build -tags rbd")
	case b.Ceph && b.CephLibraries == LibrariesMissing:
		r.add(severity, "librbd or librados is not installed: Ceph images and groups in Ceph cannot be used", install)
	}
}

const targetUnit = "nvmeof-target.service"

// whileUnused returns the condition for a restart: connections end, and with them their disks.
func whileUnused(unit string) string {
	if unit == targetUnit {
		return ""
	}
	return ", when its disks are not in use"
}
