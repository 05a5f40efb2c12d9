package gateway

import (
	"flag"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
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
		_ = flag.Set("test.parallel", strconv.Itoa(8*runtime.GOMAXPROCS(0)))
	}
	os.Exit(m.Run())
}
