package gateway

import (
	"flag"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"syscall"
	"testing"
)

func TestMain(m *testing.M) {
	// The tests make managers and targets that live for a moment: collecting these is a fifth
	// of what they compute.
	debug.SetGCPercent(400)
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given { // those that run beside others wait more than they compute
		var files syscall.Rlimit
		_ = syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files)
		_ = flag.Set("test.parallel", strconv.Itoa(max(1, min(8*runtime.GOMAXPROCS(0), int(min(files.Cur, 1<<16))/32)))) // each has some
	}
	os.Exit(m.Run())
}
