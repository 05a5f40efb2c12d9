package guest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// A Guest is a running machine. It must be used by one goroutine at a time.
type Guest struct {
	share    string
	qemu     *os.Process
	monitor  *monitor
	requests io.WriteCloser
	replies  chan reply
	exited   chan struct{}
	number   int
	broken   error // why no further script can run
	restored bool  // started from a saved state
}

// A reply is one line that the agent sent, or the end of a script.
type reply struct {
	line   string
	number int
	status int
	done   bool
}

// An ExitError reports a script that ended with a nonzero status.
type ExitError struct {
	Status int
	Output string
}

func (e *ExitError) Error() string {
	why := fmt.Sprintf("exit status %d", e.Status)
	if e.Status == 124 || e.Status == 137 {
		why = "ran past its time limit"
	}
	return why + "\n" + lastLines(e.Output, 40)
}

var errDown = errors.New("the guest went down")

// Run executes a bash script in the guest as root, with /tmp as its working directory, and returns its output. If the
// script ends with a nonzero status, or runs longer than limit, the error is an [*ExitError]; any other error means
// that the guest is lost. Processes that the script leaves behind live on if they have closed the script's output.
func (g *Guest) Run(ctx context.Context, limit time.Duration, script string) (string, error) {
	if g.broken != nil {
		return "", fmt.Errorf("guest: lost earlier: %w", g.broken)
	}
	g.number++
	name := filepath.Join(g.share, "run", fmt.Sprintf("%d.sh", g.number))
	if err := os.WriteFile(name, []byte(script), 0o644); err != nil {
		return "", fmt.Errorf("guest: %w", err)
	}
	if _, err := fmt.Fprintf(g.requests, "%d %d\n", g.number, int(limit.Seconds())); err != nil {
		g.broken = fmt.Errorf("%w\n%s", err, g.console())
		return "", fmt.Errorf("guest: %w", g.broken)
	}
	// The agent kills a script that exceeds limit; silence beyond that means a dead guest.
	ctx, cancel := context.WithTimeout(ctx, limit+45*time.Second)
	defer cancel()
	var out strings.Builder
	status, err := g.await(ctx, g.number, &out)
	switch {
	case err != nil:
		g.broken = fmt.Errorf("%w\n%s", err, g.console())
		return out.String(), fmt.Errorf("guest: %w", g.broken)
	case status != 0:
		return out.String(), &ExitError{status, out.String()}
	}
	return out.String(), nil
}

// await collects output until the script with the given number has ended.
func (g *Guest) await(ctx context.Context, number int, out *strings.Builder) (status int, err error) {
	for {
		select {
		case r, ok := <-g.replies:
			switch {
			case !ok:
				return 0, errDown
			case r.done && r.number == number:
				return r.status, nil
			case !r.done && out != nil:
				out.WriteString(r.line)
			}
		case <-ctx.Done():
			return 0, fmt.Errorf("no answer: %w", ctx.Err())
		}
	}
}

// read turns the agent's bytes into replies until QEMU closes its output.
func (g *Guest) read(r io.Reader) {
	defer close(g.replies)
	for b := bufio.NewReader(r); ; {
		line, err := b.ReadString('\n')
		if err != nil {
			return
		}
		reply := reply{line: line}
		if n, _ := fmt.Sscanf(line, "\x1e%d %d", &reply.number, &reply.status); n == 2 {
			reply.done = true
		}
		select {
		case g.replies <- reply:
		case <-g.exited:
			return
		}
	}
}

// console returns the end of what the guest's kernel and QEMU itself wrote.
func (g *Guest) console() string {
	var out strings.Builder
	for _, name := range []string{"console.log", "qemu.log"} {
		b, err := os.ReadFile(filepath.Join(g.share, name))
		if err == nil && len(b) > 0 {
			fmt.Fprintf(&out, "%s ends with:\n%s\n", name, lastLines(string(b), 25))
		}
	}
	return out.String()
}

// Close ends the guest at once. It keeps the shared directory.
func (g *Guest) Close() error {
	g.requests.Close()
	g.monitor.conn.Close()
	err := g.qemu.Kill()
	<-g.exited
	if errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	return err
}
