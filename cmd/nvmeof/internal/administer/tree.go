package administer

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/config"
	"github.com/nvmeof-go/nvmeof/nvmeof/control"
)

func newLs() *cobra.Command {
	var r Remote
	cmd := &cobra.Command{Use: "ls", Short: "Show a running target as a tree", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var doc config.Document
			var status control.Status
			var controllers []control.Controller
			if err := r.Get(cmd.Context(), "/v1/config", &doc); err != nil {
				return err
			}
			if err := r.Get(cmd.Context(), "/v1/status", &status); err != nil {
				return err
			}
			if err := r.Get(cmd.Context(), "/v1/controllers", &controllers); err != nil {
				return err
			}
			whole := wholeTarget{status, &doc, controllers}
			r.others(cmd.Context(), cmd.ErrOrStderr())
			return r.Show(cmd.OutOrStdout(), whole, func(w io.Writer) { printTree(w, &doc, &status, controllers) })
		}}
	r.AddSocket(cmd)
	r.AddOutput(cmd)
	return cmd
}

// wholeTarget is the tree in JSON and YAML.
type wholeTarget struct {
	Status      control.Status       `json:"status"`
	Config      *config.Document     `json:"config"`
	Controllers []control.Controller `json:"controllers"`
}

// A tree prints an indented tree of lines.
type tree struct {
	out     io.Writer
	waiting map[waiter]string // the reason
	trouble map[waiter]string // the problem, of namespaces that are served
	served  found
}

// A waiter is a namespace or a host that waits, or an address of a listener.
type waiter struct {
	subsystem nvmeof.NQN
	host      nvmeof.NQN
	id        int
	address   string
}

// wait returns the suffix for a namespace that waits.
func (t tree) wait(subsystem nvmeof.NQN, id int) string {
	if why, waits := t.waiting[waiter{subsystem: subsystem, id: id}]; waits {
		return ", WAITING: " + why
	}
	if what, troubled := t.trouble[waiter{subsystem: subsystem, id: id}]; troubled {
		return ", TROUBLE: " + what
	}
	return ""
}

// away returns the suffix for an address of a listener that waits.
func (t tree) away(listener int, address string) string {
	if why, waits := t.waiting[waiter{id: listener, address: address}]; waits {
		return ", WAITING: " + why
	}
	return ""
}

func (t tree) line(depth int, format string, args ...any) {
	fmt.Fprintf(t.out, "%s%s\n", strings.Repeat("  ", depth), nvmeof.Visible(fmt.Sprintf(format, args...)))
}

// newTree indexes the parts of the status that refer to single objects.
func newTree(out io.Writer, status *control.Status) tree {
	t := tree{out, map[waiter]string{}, map[waiter]string{}, findServed(status)}
	for _, x := range status.Troubles {
		t.trouble[waiter{subsystem: x.Subsystem, id: x.NSID}] = x.Why
	}
	for _, w := range status.Waiting {
		t.waiting[waiter{w.Subsystem, w.Host, w.NSID + w.Listener, w.Address}] = w.Why // at least one of the numbers is 0
	}
	return t
}

func printTree(out io.Writer, doc *config.Document, status *control.Status, controllers []control.Controller) {
	t := newTree(out, status)
	t.line(0, "target (process %d, since %s)", status.PID, status.Started.Local().Format(time.RFC3339))
	for _, x := range status.Troubles {
		if x.Subsystem == "" { // of the target itself
			t.line(1, "TROUBLE: %s: %s", x.Export, x.Why)
		}
	}
	t.gateway(status.Gateway)
	t.refusals(status)
	t.line(1, "listeners [%d]", len(doc.Listeners))
	for _, l := range doc.Listeners {
		t.listener(l, status)
	}
	t.line(1, "subsystems [%d]", len(doc.Subsystems))
	for _, s := range doc.Subsystems {
		t.subsystem(s, status, controllers)
	}
	t.erasing(doc.Erasing)
	t.line(1, "referrals [%d]", len(doc.Referrals))
	for _, x := range doc.Referrals {
		t.line(2, "%v", x.Address)
	}
}

// erasing prints the namespaces that were removed from hosts and are not erased yet.
func (t tree) erasing(all []*config.Erasing) {
	if len(all) == 0 {
		return
	}
	t.line(1, "being erased [%d]", len(all))
	for _, e := range all {
		text := fmt.Sprintf("namespace %d of %s, %s, ana-group %d", e.Namespace.NSID, e.Subsystem, e.Namespace.Path(), max(e.Namespace.ANAGroup, 1))
		if e.Why != "" {
			text += ", FAILED, retrying: " + e.Why
		}
		t.line(2, "%s", text)
	}
}

// gateway prints what a gateway of a group serves.
func (t tree) gateway(g *control.GatewayStatus) {
	if g == nil {
		return
	}
	if g.Fenced != "" {
		t.line(1, "FENCED, serves nothing: %s", g.Fenced)
	}
	t.line(1, "ana-groups served here [%d]", len(g.Groups))
	for _, x := range g.Groups {
		t.line(2, "%d, epoch %d", x.Group, x.Epoch)
	}
}

// refusals prints what limits have rejected and which hosts have not authenticated, if any.
func (t tree) refusals(status *control.Status) {
	if c := &status.ControllerLimits; c.Refused+c.Displaced+c.Unanswered > 0 {
		t.line(1, "controllers: %d refused at a limit, %d unresponsive ones ended to admit new ones of the same host, %d ended by keep alive timeout",
			c.Refused, c.Displaced, c.Unanswered)
	}
	if a := &status.Admission; a.GaveWay+a.Refused+a.Silent+a.Memory > 0 {
		t.line(1, "connections: %d made room for newer ones, %d refused at the limit of their address, %d ended without a Connect command, "+
			"%d refused for lack of memory for queues", a.GaveWay, a.Refused, a.Silent, a.Memory)
	}
	if r := &status.Requests; r.TooMany+r.Backlog+r.HalfOpen > 0 {
		t.line(1, "connection requests: %d dropped above the rate of an address or of all, %d refused because too many waited, %d made room for newer ones",
			r.TooMany, r.Backlog, r.HalfOpen)
	}
	if status.Undelivered > 0 {
		t.line(1, "connections: %d ended because their hosts answered, but did not accept the data that was sent to them", status.Undelivered)
	}
	if status.Slowed > 0 {
		t.line(1, "queues: %d times a queue got less memory, because its host delayed data while others waited for memory", status.Slowed)
	}
	if a := &status.Authentications; a.Failed+a.TimedOut+a.Abandoned+a.Interrupted > 0 {
		t.line(1, "authentications: %d succeeded, %d failed, %d timed out, %d abandoned, %d messages deferred",
			a.Succeeded, a.Failed, a.TimedOut, a.Abandoned, a.Interrupted)
	}
}

func (t tree) listener(l *config.Listener, status *control.Status) {
	text := l.Address.String()
	if l.Transport != "" {
		text += " (" + string(l.Transport) + ")"
	}
	t.line(2, "%d %s%s", l.ID, text, t.away(l.ID, l.Address.String()))
	for _, a := range status.Addresses {
		if a.Listener == l.ID {
			t.line(3, "%s, port-id %d", a.Address, a.Port)
		}
	}
	for _, w := range status.Waiting {
		if w.Listener == l.ID && w.Address != l.Address.String() { // of a wildcard
			t.line(3, "%s%s", w.Address, t.away(l.ID, w.Address))
		}
	}
	for _, g := range l.ANAGroups {
		t.line(3, "ana-group %d %s", g.Group, g.State)
	}
}

func (t tree) subsystem(s *config.Subsystem, status *control.Status, controllers []control.Controller) {
	t.line(2, "%s (listeners %s)", string(s.NQN), listenerList(s))
	t.line(3, "namespaces [%d]", len(s.Namespaces))
	for _, n := range s.Namespaces {
		kind, export, size := describe(n)
		now := t.served.of(s.NQN, n.NSID)
		text := strings.Join(slices.DeleteFunc([]string{kind, export, sizeOf(now, size)}, func(s string) bool { return s == "" }), " ")
		text = strings.Join(append([]string{text}, conditions(n, now)...), ", ")
		group := max(n.ANAGroup, 1)
		if !status.Gateway.Serves(group) {
			text += ", at another target"
		}
		t.line(4, "%d %s%s, ana-group %d", n.NSID, text, t.wait(s.NQN, n.NSID), group)
	}
	t.line(3, "hosts [%d]", len(s.Hosts))
	if s.AllowAnyHost {
		t.line(4, "any host")
	}
	for _, h := range s.Hosts {
		text := string(h.NQN) + " " + orElse(string(h.Access), "write")
		if rights := rightsOf(h); len(rights) > 16 { // with volumes of Kubernetes a host may have hundreds
			text += fmt.Sprintf(", except for %d namespaces: see nvmeof host show", len(rights))
		} else if len(rights) > 0 {
			text += ", except " + strings.Join(rights, ", ")
		}
		if h.KeyFile != "" {
			text += ", with a key"
		}
		if why, waits := t.waiting[waiter{subsystem: s.NQN, host: h.NQN}]; waits {
			text += ", WAITING: " + why
		}
		t.line(4, "%s", text)
	}
	for _, c := range controllers {
		if c.Subsystem == s.NQN {
			t.line(3, "controller %d: %s from %s, %d I/O queues", c.ID, string(c.Host), c.Peer, len(c.Queues))
		}
	}
}
