package sandbox

import (
	"fmt"
	"runtime"
	"strings"

	"github.com/elastic/go-seccomp-bpf"
	"github.com/elastic/go-seccomp-bpf/arch"
	"golang.org/x/sys/unix"
)

// allowed lists the system calls that a target makes: those of the Go runtime, package net, the stores, softroce and
// libibverbs. Names that do not exist on an architecture are skipped there.
var allowed = strings.Fields(`
	arch_prctl brk madvise membarrier mincore mlock mlock2 mmap mprotect mremap msync munlock munmap
	get_mempolicy mbind memfd_create
	clone clone3 exit exit_group futex futex_waitv get_robust_list gettid prctl restart_syscall riscv_hwprobe rseq
	sched_getaffinity sched_getattr sched_getparam sched_getscheduler sched_get_priority_max sched_get_priority_min
	sched_setaffinity sched_setattr sched_setscheduler sched_yield set_robust_list set_tid_address setpriority getpriority
	clock_getres clock_gettime clock_nanosleep gettimeofday getitimer nanosleep setitimer time times
	timer_create timer_delete timer_getoverrun timer_gettime timer_settime timerfd_create timerfd_gettime timerfd_settime
	kill pause rt_sigaction rt_sigpending rt_sigprocmask rt_sigqueueinfo rt_sigreturn rt_sigsuspend rt_sigtimedwait
	rt_tgsigqueueinfo sigaltstack signalfd4 tgkill tkill
	getcpu getegid geteuid getgid getgroups getpgid getpgrp getpid getppid getrandom getresgid getresuid getrlimit
	getrusage getsid getuid prlimit64 setrlimit sysinfo umask uname wait4 waitid
	access chmod chown close close_range creat dup dup2 dup3 faccessat faccessat2 fadvise64 fallocate fchmod fchmodat
	fchmodat2 fchown fchownat fcntl fdatasync fgetxattr flistxattr flock fremovexattr fsetxattr fstat fstatfs fsync
	ftruncate getcwd getdents getdents64 getxattr ioctl lchown lgetxattr link linkat listxattr llistxattr lremovexattr lseek
	lsetxattr lstat mkdir mkdirat newfstatat open openat openat2 pipe pipe2 pread64 preadv preadv2 pwrite64 pwritev
	pwritev2 read readahead readlink readlinkat readv removexattr rename renameat renameat2 rmdir sendfile setxattr splice
	stat statfs statx sync sync_file_range syncfs truncate unlink unlinkat utimensat write writev copy_file_range
	epoll_create epoll_create1 epoll_ctl epoll_pwait epoll_pwait2 epoll_wait eventfd eventfd2 io_uring_enter
	io_uring_register io_uring_setup poll ppoll pselect6 select
	accept accept4 bind connect getpeername getsockname getsockopt listen recvfrom recvmmsg recvmsg sendmmsg sendmsg
	sendto setsockopt shutdown socketpair
`)

// sockets lists the sockets that a target creates, by the arguments of socket(2): local ones, and UDP.
var sockets = []seccomp.NameWithConditions{
	{Name: "socket", Conditions: seccomp.ArgumentConditions{{Argument: 0, Operation: seccomp.Equal, Value: unix.AF_UNIX}}},
	{Name: "socket", Conditions: seccomp.ArgumentConditions{{Argument: 0, Operation: seccomp.Equal, Value: unix.AF_NETLINK}}},
	{Name: "socket", Conditions: seccomp.ArgumentConditions{{Argument: 0, Operation: seccomp.Equal, Value: unix.AF_INET}, notStream}},
	{Name: "socket", Conditions: seccomp.ArgumentConditions{{Argument: 0, Operation: seccomp.Equal, Value: unix.AF_INET6}, notStream}},
}

// notStream holds for SOCK_DGRAM, but not for SOCK_STREAM or SOCK_RAW.
var notStream = seccomp.Condition{Argument: 1, Operation: seccomp.BitsNotSet, Value: unix.SOCK_STREAM}

// filterCalls allows all threads of the process only the system calls of a target; others fail with EPERM.
func filterCalls() error {
	switch runtime.GOARCH {
	case "amd64", "arm64":
	default:
		return fmt.Errorf("the list of system calls is not tested on %s", runtime.GOARCH)
	}
	machine, err := arch.GetInfo(runtime.GOARCH)
	if err != nil {
		return err
	}
	var names []string
	for _, name := range allowed {
		if _, there := machine.SyscallNames[name]; there {
			names = append(names, name)
		}
	}
	if !seccomp.Supported() {
		return fmt.Errorf("the kernel has no seccomp filter")
	}
	return seccomp.LoadFilter(seccomp.Filter{
		NoNewPrivs: true,
		// Without SPEC_ALLOW, Linux before 5.16 slows down every thread with a filter.
		Flag:   seccomp.FilterFlagTSync | seccomp.FilterFlag(unix.SECCOMP_FILTER_FLAG_SPEC_ALLOW),
		Policy: seccomp.Policy{DefaultAction: seccomp.ActionErrno, Syscalls: []seccomp.SyscallGroup{{Action: seccomp.ActionAllow, Names: names, NamesWithCondtions: sockets}}},
	})
}
