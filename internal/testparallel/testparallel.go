// Package testparallel runs more of a package's parallel tests at a time than there are processors. That suits tests
// that wait more than they compute.
package testparallel

import (
	"flag"
	"runtime"
	"strconv"
	"syscall"
)

// filesEach is more descriptors than any test has open at once.
const filesEach = 32

// Set allows perProcessor parallel tests per processor, limited by the number of file descriptors, unless the command
// line sets -parallel. Call it in TestMain; it parses the flags.
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
