package administer

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/failure"
	"github.com/nvmeof-go/nvmeof/nvmeof/control"
)

// A waiting waits for a group of gateways to carry out an order. The group carries it out whether or not a command
// waits.
type waiting struct {
	remote *Remote
	most   time.Duration // 0: do not wait
}

// poll is the interval at which the group's status is read. The queried gateway answers from memory.
const poll = 200 * time.Millisecond

func (w *waiting) addFlag(cmd *cobra.Command, forWhat string) {
	cmd.Flags().DurationVar(&w.most, "wait", 0, "maximum time to wait until "+forWhat+", as 1m; 0: do not wait")
}

// check is called before the order is given, so that nothing has been done if it fails.
func (w *waiting) check() error {
	if w.most < 0 {
		return failure.Usagef("--wait %v: want a time, as 1m, or 0 not to wait", w.most)
	}
	return nil
}

// until waits until done returns "" or an error. done returns what remains to be done, or an error if that will not be
// done any more. A gateway that does not answer, or does not know its group for a moment because it is starting, is
// queried again.
func (w *waiting) until(ctx context.Context, done func(*control.GroupStatus) (string, error)) error {
	if w.most == 0 {
		return nil
	}
	for deadline := time.Now().Add(w.most); ; {
		var g control.GroupStatus
		unread := w.remote.Get(ctx, "/v1/group", &g)
		left := ""
		if unread == nil {
			var err error
			if left, err = done(&g); err != nil || left == "" {
				return err
			}
		}
		switch late := time.Now().After(deadline); {
		case late && unread != nil:
			return fmt.Errorf("the order stands, but it is not known whether it was executed: %w", unread)
		case late:
			return fmt.Errorf("%s after %v; the order stands; nvmeof gateway list shows problems", left, w.most)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(poll):
		}
	}
}

// drained returns the condition that a gateway serves no ANA group, for until.
func drained(name string) func(*control.GroupStatus) (string, error) {
	return func(g *control.GroupStatus) (string, error) {
		var ids []int
		for i := range g.Groups {
			if g.Groups[i].Owner == name {
				ids = append(ids, g.Groups[i].Group)
			}
		}
		if len(ids) == 0 {
			return "", nil
		}
		return fmt.Sprintf("gateway %s still serves ANA groups %d", name, ids), nil
	}
}

// moved returns the condition that a gateway serves an ANA group, for until. The group gives up a move to a gateway
// that does not respond, or from one whose outstanding commands do not end.
func moved(id int, name string) func(*control.GroupStatus) (string, error) {
	ended := false // at the reading before this one: the first may predate the order
	return func(g *control.GroupStatus) (string, error) {
		i := slices.IndexFunc(g.Groups, func(a control.ANAStatus) bool { return a.Group == id })
		switch {
		case i < 0:
			return "", fmt.Errorf("the group no longer has ANA group %d", id)
		case g.Groups[i].Owner == name:
			return "", nil
		case g.Groups[i].Moving != "" || g.Groups[i].Owner == "":
			ended = false
		case !ended:
			ended = true
		default:
			return "", fmt.Errorf("the move of ANA group %d to gateway %s was abandoned, and gateway %s serves it: nvmeof events shows the reason", id, name, g.Groups[i].Owner)
		}
		return fmt.Sprintf("ANA group %d is not at gateway %s", id, name), nil
	}
}
