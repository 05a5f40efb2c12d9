// Package testparallel has a package's parallel tests run more at a time than there are
// processors, as is right for those that wait more than they compute.
package testparallel

import (
	"flag"
	"runtime"
	"strconv"
	"syscall"
)

// filesEach is more descriptors than a test of ours has open at once.
const filesEach = 32

// Set has perProcessor tests run at once for each processor, or as many as there are file
// descriptors for, unless the command line says how many (-parallel). It is for TestMain,
// and parses the flags.
func Set(perProcessor int) {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if given {
		return
	}
	n := perProcessor * runtime.GOMAXPROCS(0)
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err == nil {
		n = min(n, int(min(files.Cur, 1<<16))/filesEach)
	}
	_ = flag.Set("test.parallel", strconv.Itoa(max(1, n)))
}
