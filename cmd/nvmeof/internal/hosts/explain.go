package hosts

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/connections"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/failure"
	"github.com/nvmeof-go/nvmeof/internal/shell"
	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/host"
)

// notAllowed reports whether a target rejected this host because the host is not allowed there.
func notAllowed(err error) bool {
	var status *host.StatusError
	return errors.As(err, &status) && status.Status.Code() == capsule.StatusConnectInvalidHost && !status.ObjectsToIdentifier()
}

// Explain adds to the error of a rejected connection by these paths what it means for the user. If the subsystem does
// not exist, it lists those that do.
func Explain(ctx context.Context, err error, paths ...connections.Path) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	var refused *host.ConnectError
	if errors.As(err, &refused) {
		for i := range paths {
			if o := &paths[i].Options; o.Traddr == refused.Addr.Addr() && o.Trsvcid == refused.Addr.Port() {
				err = fmt.Errorf("%w%s", err, advice(ctx, err, paths[i].Host, o))
				break
			}
		}
	}
	var use failure.Usage
	if errors.As(err, &use) {
		return err
	}
	return &failure.Connect{Err: err}
}

// advice returns what a user can do about a rejection, each item on a line of its own.
func advice(ctx context.Context, err error, h *host.Host, o *host.Options) string {
	if notAllowed(err) {
		return fmt.Sprintf("\nThis host is %s; on a target of ours: --allow-host %s", o.HostNQN, shell.Quote(string(o.HostNQN)))
	}
	var status *host.StatusError
	if !errors.As(err, &status) || status.Status.Code() != capsule.StatusConnectInvalidParam {
		return ""
	}
	if p := capsule.ParseInvalidParameter(status.Result); p.In == capsule.InvalidInData && p.Offset == capsule.ConnectOffsetSubNQN {
		return suggest(ctx, h, o)
	}
	return ""
}

// suggest lists the subsystems that exist, for a subsystem that does not.
func suggest(ctx context.Context, h *host.Host, o *host.Options) string {
	d := *o
	d.NQN, d.Event = "", nil
	log, err := h.Discover(ctx, d)
	if err != nil {
		return ""
	}
	var names []string
	for i := range log.Entries {
		if e := &log.Entries[i]; e.SUBTYPE == capsule.SubsystemNVM {
			names = append(names, nvmeof.Printable(capsule.Text(e.SubNQN[:])))
		}
	}
	if len(names) == 0 {
		return fmt.Sprintf("\nThat target lists no subsystem to this host, %s: is the host allowed there?", o.HostNQN)
	}
	slices.Sort(names)
	names = slices.Compact(names)
	if near := nvmeof.Nearest(string(o.NQN), names); near != "" {
		return "\nDid you mean " + near + "?"
	}
	return "\nThere is: " + strings.Join(names, ", ")
}

// Effective describes the timeouts of a connection.
func Effective(name string, p *connections.Path) string {
	kato, fast := "off", "with that"
	switch k := p.Options.KeepAliveTmo; {
	case k == 0:
		kato = nvmeof.DefaultKeepAlive.String()
	case k > 0:
		kato = k.String()
	}
	if f := p.Timers.FastIOFailTmo; f >= 0 {
		fast = "after " + f.String()
	}
	loss := "never given up"
	if l := p.Timers.CtrlLossTmo; l >= 0 {
		loss = "given up after " + l.Round(time.Millisecond).String()
	}
	return fmt.Sprintf("%s: keep alive timeout %s; reconnect interval at most %v, %s; requests fail %s",
		name, kato, p.Timers.ReconnectDelay, loss, fast)
}
