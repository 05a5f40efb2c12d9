// Command live runs a target that a script changes while hosts are connected. Each line of standard input is one
// change, which is answered by a line "ok" or "error: ...".
//
//	listener add PORT | listener remove ID
//	subsystem add NQN | subsystem remove NQN
//	namespace add ID MIB | namespace remove|pause|resume ID
//	namespace resize ID MIB | namespace readonly ID on|off | namespace group ID GROUP
//	host allow|remove NQN | host access NQN ID write|read|none
//	ana LISTENER GROUP STATE
//	referral add|remove ADDR:PORT
//
// Namespaces are in memory, and belong to the subsystem named by -nqn.
package main

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/netip"
	"os"

	"go.uber.org/zap"

	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/target"
	"github.com/nvmeof-go/nvmeof/test/interop/device"
)

func main() {
	addr := flag.String("addr", "", "address to serve on")
	transport := flag.String("transport", "softroce", "softroce or verbs")
	nqn := flag.String("nqn", "", "name of the subsystem")
	flag.Parse()
	if err := run(*transport, *addr, *nqn, os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "live:", err)
		os.Exit(1)
	}
}

// run serves until the input ends.
func run(transport, addr, nqn string, in io.Reader, out io.Writer) error {
	a, err := netip.ParseAddr(addr)
	if err != nil {
		return err
	}
	log, err := zap.NewDevelopment()
	if err != nil {
		return err
	}
	dev, err := device.Open(transport, a, 2)
	if err != nil {
		return err
	}
	t, err := target.New(target.Config{Device: dev, Log: log, Shards: 2})
	if err != nil {
		return errors.Join(err, dev.Close())
	}
	s, err := t.AddSubsystem(target.SubsystemConfig{NQN: nvmeof.NQN(nqn)})
	if err != nil {
		return errors.Join(err, t.Close(), dev.Close())
	}
	m := &model{addr: a, target: t, sub: s, stores: make(map[int]*store)}
	fmt.Fprintln(out, "ready")
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		if err := m.change(lines.Text()); err != nil {
			fmt.Fprintln(out, "error:", err)
		} else {
			fmt.Fprintln(out, "ok")
		}
	}
	return errors.Join(lines.Err(), t.Close(), dev.Close())
}
