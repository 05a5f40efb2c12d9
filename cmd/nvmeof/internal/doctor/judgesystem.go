package doctor

import (
	"fmt"
	"slices"
	"strings"
)

const installLibraries = "apt-get install libibverbs1 librdmacm1 ibverbs-providers (Fedora: libibverbs librdmacm)"

// judgeVerbs finds what the verbs transport lacks.
func (r *Report) judgeVerbs() {
	b := &r.Build
	if len(r.Devices) == 0 {
		mend := "nothing, unless you want the verbs transport: install an RNIC, or create a software RDMA device: modprobe rdma_rxe; rdma link add rxe0 type rxe netdev " + r.ethernet() + " (apt-get install iproute2)"
		r.add(Note, "this machine has no RDMA device; softroce needs none", mend)
		return
	}
	switch {
	case !b.Verbs:
		mend := "CGO_ENABLED=1 go build -tags verbs (apt-get install gcc libibverbs-dev librdmacm-dev)"
		if b.Libraries == LibrariesMissing {
			mend += ", and on the machine where it runs: " + installLibraries
		}
		r.add(Note, fmt.Sprintf("this build has no verbs transport: it cannot use %s", r.deviceNames()), mend)
	case b.Libraries == LibrariesMissing:
		r.add(Problem, "the RDMA libraries are not installed: "+b.LibraryDetail, installLibraries)
	case b.Libraries == LibrariesUnusable:
		r.add(Problem, "the RDMA libraries are installed but cannot be loaded: "+b.LibraryDetail, "reinstall the packages of your distribution, version 28 or later: "+installLibraries)
	}
	r.judgeNodes()
	r.judgeMemory()
}

// ethernet returns an interface that rxe could use.
func (r *Report) ethernet() string {
	for _, i := range r.Interfaces {
		if i.Name != "lo" && i.State != "down" {
			return i.Name
		}
	}
	return "INTERFACE"
}

func (r *Report) deviceNames() string {
	var names []string
	for _, d := range r.Devices {
		names = append(names, d.Name)
	}
	return strings.Join(names, ", ")
}

// judgeNodes examines the device nodes that user space needs.
func (r *Report) judgeNodes() {
	for _, m := range []struct{ name, node, what string }{
		{"ib_uverbs", "/dev/infiniband/uverbs", "no program can use an RDMA device"},
		{"rdma_ucm", "/dev/infiniband/rdma_cm", "no program can make RDMA connections"},
	} {
		if !slices.ContainsFunc(r.Access, func(a Access) bool { return strings.HasPrefix(a.Path, m.node) }) {
			r.add(r.ifVerbs(Problem), fmt.Sprintf("there is no %s*: %s", m.node, m.what), "modprobe "+m.name+r.source(m.name))
		}
	}
	for _, a := range r.Access {
		if !a.ReadWrite {
			r.add(r.ifVerbs(Problem), "this user may not access "+a.Path, "apt-get install rdma-core, whose udev rules give every user access; or: chmod 0666 "+a.Path)
		}
	}
}

// ifVerbs returns the severity, lowered if this build cannot use verbs anyway.
func (r *Report) ifVerbs(s Severity) Severity {
	if r.Build.Verbs {
		return s
	}
	return Note
}

// source returns the package of a module that this kernel does not have.
func (r *Report) source(module string) string {
	if r.module(module) != moduleAbsent {
		return ""
	}
	return " (not in this kernel; on Ubuntu: apt-get install linux-modules-extra-" + r.release + ")"
}

func (r *Report) judgeMemory() {
	m := &r.Memory
	if m.Exempt || m.Soft < 0 || m.Soft >= m.Wanted {
		return
	}
	mend := "ulimit -l unlimited"
	if m.Hard >= 0 && m.Hard < m.Wanted {
		mend = "create a file in /etc/security/limits.d with: * - memlock unlimited"
	}
	r.add(r.ifVerbs(Problem), fmt.Sprintf("this user may lock only %s of memory; a target with --transport verbs registers %s when it starts, and about 0.6 MiB for each I/O queue", size(m.Soft), size(m.Wanted)),
		mend+"; in a systemd unit: LimitMEMLOCK=infinity; or fewer --shards (64 MiB each)")
}

// judgePort finds what prevents softroce from using its port.
func (r *Report) judgePort() {
	reported := false
	for _, h := range r.RoCEPort {
		switch h.Kind {
		case holderKernel: // one socket per address family
			if !reported {
				mend := "run nvmeof in another network namespace, or remove rxe: rdma link delete NAME; modprobe -r rdma_rxe"
				if r.Build.Verbs {
					mend = "use --transport verbs at the address of the rxe device; or " + mend
				}
				r.add(r.unlessVerbs(Problem), "softroce cannot be used here: the kernel's rdma_rxe has UDP port 4791 open", mend)
			}
			reported = true
		case holderProcess:
			r.add(Note, fmt.Sprintf("UDP port 4791 of %v is in use by %s: softroce can use other addresses only", h.Address, h.who()), "stop it, or use another address")
		default:
			r.add(r.unlessVerbs(Problem), fmt.Sprintf("UDP port 4791 of %v is in use by %s", h.Address, h.who()), "to see which, run as root: nvmeof doctor, or ss -ulnp")
		}
	}
}

// unlessVerbs returns the severity, lowered if verbs works somewhere.
func (r *Report) unlessVerbs(s Severity) Severity {
	if slices.ContainsFunc(r.Transports, func(t Transport) bool { return t.Verbs }) {
		return Note
	}
	return s
}

// judgeLimits examines the sockets' buffers.
func (r *Report) judgeLimits() {
	s := &r.Sockets
	if s.ReceiveBuffer < s.Wanted {
		severity := Note
		if s.ReceiveBuffer < s.Wanted/8 {
			severity = Problem
		}
		r.add(severity, fmt.Sprintf("softroce's receive buffers are %s instead of %s, which limits the data that peers can have in flight", size(s.ReceiveBuffer), size(s.Wanted)),
			fmt.Sprintf("sysctl -w net.core.rmem_max=%d, also in a file in /etc/sysctl.d; or run with CAP_NET_ADMIN", socketBuffer))
	}
}

// judgeKernel examines the kernel's settings outside RDMA.
func (r *Report) judgeKernel() {
	switch u := &r.IOUring; {
	case u.Works:
	case u.Disabled > 0:
		r.add(Problem, fmt.Sprintf("io_uring is disabled (kernel.io_uring_disabled=%d): files are served by threads, which is slower", u.Disabled), "sysctl -w kernel.io_uring_disabled=0")
	default:
		r.add(Problem, "io_uring cannot be used ("+u.Detail+"): files are served by threads, which is slower", "use Linux 5.11 or later; in a container: a seccomp profile that allows io_uring_setup")
	}
	for _, m := range []struct{ name, what string }{{"nvme_rdma", "Linux's own NVMe/RDMA host"}, {"nvmet_rdma", "Linux's own NVMe/RDMA target"}} {
		if r.module(m.name) == moduleAbsent {
			r.add(Note, "this kernel has no module "+m.name+", "+m.what+"; this program does not need it", "nothing, unless you need it"+r.source(m.name))
		}
	}
}

// size formats a number of bytes with a suitable unit.
func size(n int64) string {
	switch {
	case n < 0:
		return "unlimited"
	case n >= 1<<40 && n%(1<<40) == 0:
		return fmt.Sprintf("%d TiB", n>>40)
	case n >= 1<<30 && n%(1<<30) == 0:
		return fmt.Sprintf("%d GiB", n>>30)
	case n >= 1<<20:
		return fmt.Sprintf("%.4g MiB", float64(n)/(1<<20))
	case n >= 1<<10:
		return fmt.Sprintf("%.4g KiB", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%d bytes", n)
}
