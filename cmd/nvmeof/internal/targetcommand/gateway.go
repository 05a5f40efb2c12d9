package targetcommand

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/pflag"
	"go.uber.org/zap"

	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/failure"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/gateway"
	"github.com/nvmeof-go/nvmeof/internal/group"
	"github.com/nvmeof-go/nvmeof/nvmeof/config"
	"github.com/nvmeof-go/nvmeof/nvmeof/control"
	"github.com/nvmeof-go/nvmeof/nvmeof/events"
	"github.com/nvmeof-go/nvmeof/nvmeof/target"
)

const (
	groupHelp   = "join the group of gateways with this store: etcd://ADDRESS,ADDRESS.../NAME, or rados://POOL/NAME in a Ceph cluster; replaces --nqn and --export, since nvmeof target apply sets the subsystems of all gateways"
	gatewayHelp = "with --group: name of this gateway (default: the machine's host name)"
)

// addPlaces adds the flags that name the target's other addresses and files.
func (f *Flags) addPlaces(flags *pflag.FlagSet) {
	f.addPorts(flags)
	flags.StringVar(&f.group, "group", "", groupHelp)
	flags.StringVar(&f.gateway, "gateway", "", gatewayHelp)
}

// grouped returns the document of flags with --group.
func (f *Flags) grouped(doc *config.Document) error {
	if f.NQN != "" || len(f.Exports) > 0 || len(f.allowHosts) > 0 || f.AllowAnyHost {
		return failure.Usagef("--group excludes --nqn, --export, --allow-host and --allow-any-host: the subsystems are those of the group, which nvmeof target apply FILE sets")
	}
	doc.Group = config.Gateways{Store: f.group, Gateway: f.gateway}
	_, _, err := config.Parse("", doc.JSON())
	return f.explain(err)
}

// makeTarget makes the target, as a gateway of a group if the document says so.
func (d *Daemon) makeTarget(ctx context.Context, happened *events.Log) (*target.Target, error) {
	if err := d.join(ctx, happened); err != nil {
		return nil, err
	}
	return newConfigured(d, happened)
}

// join makes the target a gateway if the document says so.
func (d *Daemon) join(ctx context.Context, happened *events.Log) (err error) {
	d.gateway = nil
	doc := d.Document
	switch {
	case !doc.Grouped():
		return nil
	case sharedElsewhere(d.File, doc) != nil:
		return sharedElsewhere(d.File, doc)
	case d.controllers.First != 0:
		return failure.Usagef("--controller-ids: not with --group, which assigns each gateway its own range")
	}
	record := func(s events.Severity, format string, args ...any) {
		happened.Record(events.Event{Kind: events.ANA, Severity: s, Text: fmt.Sprintf("group: "+format, args...)})
	}
	g, err := gateway.Open(ctx, gateway.Config{
		Document: doc, Log: d.Log,
		Alarm: func(a group.Alarm) { record(events.Warning, "%s: %s", a.Kind, a.Text) },
		Took: func(a group.Took) {
			record(events.Info, "this gateway now serves ANA group %d, in epoch %d (%s), after %v", a.Group, a.Epoch, a.Reason, a.Duration.Round(time.Millisecond))
		},
		Joined: func(name, state string) { record(events.Info, "gateway %s is %s", name, state) },
	})
	if err != nil {
		return err
	}
	d.gateway = g
	fmt.Fprintf(d.Out, "gateway %s of group %s\n", d.gateway.Name(), doc.Group.Store)
	return nil
}

// sharedElsewhere returns an error if the document of a gateway defines what its group defines.
func sharedElsewhere(file string, doc *config.Document) error {
	if !doc.Grouped() || len(doc.Subsystems)+len(doc.Referrals) == 0 {
		return nil
	}
	return failure.Usagef("%s: subsystems and referrals are those of the group: remove them, and set them with nvmeof target apply FILE", file)
}

// part closes the group's store. It is called after runGateway has ended.
func (d *Daemon) part() {
	if d.gateway == nil {
		return
	}
	if err := d.gateway.Close(); err != nil {
		d.Log.Warn("cannot close the group's store", zap.Error(err))
	}
}

// runGateway lets the group decide what the target serves, until the returned function is called.
func (d *Daemon) runGateway(m *control.Manager) (end func()) {
	if d.gateway == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { // ends with ctx, when everything that the gateway serves was given back
		defer close(ended)
		if err := d.gateway.Run(ctx, m); err != nil {
			d.Log.Error("the target could not become a gateway and serves nothing", zap.Error(err))
		}
	}()
	return func() {
		cancel()
		<-ended
	}
}

// errGrouped is the reason why a gateway has no sandbox.
var errGrouped = errors.New("the target is a gateway: the group's later exports are not known, and its store is reached over the network")
