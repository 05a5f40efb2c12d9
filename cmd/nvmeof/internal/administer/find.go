package administer

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/failure"
	"github.com/nvmeof-go/nvmeof/internal/shell"
	"github.com/nvmeof-go/nvmeof/nvmeof/config"
	"github.com/nvmeof-go/nvmeof/nvmeof/control"
)

// Find returns the control socket of --socket. Without that flag it returns the default socket, unless no target
// listens there and exactly one at another socket, which it returns then.
func (r *Remote) Find() (string, error) {
	if r.cmd == nil || r.cmd.Flags().Changed("socket") {
		return r.socket, nil
	}
	served := control.Sockets(os.Getenv, os.Getuid())
	switch {
	case len(served) == 0, slices.Contains(served, r.socket):
		return r.socket, nil
	case len(served) == 1:
		return served[0], nil
	}
	var b strings.Builder
	for _, at := range served {
		fmt.Fprintf(&b, "\n  --socket %s  (%s)", at, about(r.cmd.Context(), at))
	}
	return "", failure.Usagef("%d targets run here, and none at %s: select one%s", len(served), r.socket, &b)
}

// others prints other running targets if the target was found without --socket.
func (r *Remote) others(ctx context.Context, out io.Writer) {
	if r.cmd.Flags().Changed("socket") {
		return
	}
	this, err := r.Find()
	if err != nil {
		return
	}
	rest := slices.DeleteFunc(control.Sockets(os.Getenv, os.Getuid()), func(at string) bool { return at == this })
	if len(rest) == 0 {
		return
	}
	fmt.Fprintf(out, "this is the target at %s; others run here, which commands use with --socket, or with NVMEOF_SOCKET in the environment:\n", this)
	for _, at := range rest {
		fmt.Fprintf(out, "  nvmeof ls --socket %s  (%s)\n", shell.Quote(at), about(ctx, at))
	}
}

// about describes a target to a user who must choose one.
func about(ctx context.Context, socket string) string {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	c := control.NewClient(socket)
	defer c.Close()
	var status control.Status
	var doc config.Document
	if err := c.Do(ctx, "GET", "/v1/status", nil, nil, &status); err != nil {
		return err.Error()
	}
	if err := c.Do(ctx, "GET", "/v1/config", nil, nil, &doc); err != nil {
		return err.Error()
	}
	parts := []string{fmt.Sprintf("process %d", status.PID)}
	if status.File != "" {
		parts = append(parts, status.File)
	}
	for i, s := range doc.Subsystems {
		if i == 2 {
			parts = append(parts, fmt.Sprintf("%d more subsystems", len(doc.Subsystems)-i))
			break
		}
		parts = append(parts, string(s.NQN))
	}
	for i, l := range doc.Listeners {
		if i == 2 {
			parts = append(parts, fmt.Sprintf("%d more listeners", len(doc.Listeners)-i))
			break
		}
		parts = append(parts, l.Address.String())
	}
	return strings.Join(parts, ", ")
}
