// Command gateways serves one file by two processes with the same document. It moves the ownership of the file's ANA
// group between them, and then serves until a file appears: what one process has released the other serves. It prints
// "running" when hosts can connect, a line for each move, and the longest move. Any error ends it with status 1.
//
//	gateways -nqn NQN -file FILE -go FILE -moves 10 -until FILE ADDR ADDR
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

func main() {
	var c config
	flag.StringVar(&c.nqn, "nqn", "", "name of the subsystem")
	flag.StringVar(&c.file, "file", "", "what is exported")
	flag.StringVar(&c.begin, "go", "", "file that begins the moves")
	flag.StringVar(&c.until, "until", "", "file that ends the run")
	flag.IntVar(&c.moves, "moves", 10, "how often the group moves")
	flag.IntVar(&c.number, "gateway", 0, "be one of the two, which is told by standard input what to do")
	flag.Parse()
	c.addrs = flag.Args()
	run := c.run
	if c.number > 0 {
		run = c.serve
	}
	if err := run(); err != nil {
		fmt.Println("gateways:", err)
		os.Exit(1)
	}
}

type config struct {
	nqn, file, begin, until string
	moves, number           int
	addrs                   []string
}

// A gateway is one of the two processes.
type gateway struct {
	cmd     *exec.Cmd
	in      io.WriteCloser
	answers *bufio.Scanner
}

func (c *config) start(number int) (*gateway, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	g := &gateway{cmd: exec.Command(self, append([]string{"-gateway", strconv.Itoa(number), "-nqn", c.nqn, "-file", c.file}, c.addrs...)...)}
	g.cmd.Stderr = os.Stderr
	if g.in, err = g.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := g.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	g.answers = bufio.NewScanner(out)
	if err := g.cmd.Start(); err != nil {
		return nil, err
	}
	return g, g.answered()
}

// do has the process carry something out, and waits until that is done.
func (g *gateway) do(format string, args ...any) error {
	if _, err := fmt.Fprintf(g.in, format+"\n", args...); err != nil {
		return err
	}
	return g.answered()
}

func (g *gateway) answered() error {
	if !g.answers.Scan() {
		return errors.Join(errors.New("a gateway has ended"), g.answers.Err())
	}
	if a := g.answers.Text(); a != "done" {
		return errors.New(a)
	}
	return nil
}

func (g *gateway) end() error { return errors.Join(g.in.Close(), g.cmd.Wait()) }

func (c *config) run() (err error) {
	var both [2]*gateway
	for i := range both {
		if both[i], err = c.start(i + 1); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, both[i].end()) }()
	}
	if err := both[0].do("serve 1"); err != nil {
		return err
	}
	fmt.Println("running")
	if err := appears(c.begin); err != nil {
		return err
	}
	var longest time.Duration
	for i := range c.moves {
		time.Sleep(time.Second)
		began := time.Now()
		if err := both[i%2].do("drain"); err != nil {
			return err
		}
		drained := time.Since(began)
		if err := both[(i+1)%2].do("serve %d", i+2); err != nil {
			return err
		}
		took := time.Since(began)
		longest = max(longest, took)
		fmt.Printf("# moved in %.0f ms, of which %.0f ms were the drain\n", 1000*took.Seconds(), 1000*drained.Seconds())
	}
	fmt.Printf("# %d moves, the longest of %.0f ms\n", c.moves, 1000*longest.Seconds())
	return appears(c.until)
}

// appears waits for a file.
func appears(name string) error {
	for end := time.Now().Add(10 * time.Minute); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if _, err := os.Stat(name); err == nil {
			return nil
		}
	}
	return fmt.Errorf("%s: %w", name, context.DeadlineExceeded)
}

// obey carries out the lines of standard input until it ends.
func obey(carryOut func(what string, epoch uint64) error) error {
	fmt.Println("done")
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		what, number, _ := strings.Cut(in.Text(), " ")
		epoch, _ := strconv.ParseUint(number, 10, 64)
		if err := carryOut(what, epoch); err != nil {
			fmt.Println(strings.ReplaceAll(err.Error(), "\n", "; "))
			continue
		}
		fmt.Println("done")
	}
	return nil
}
