package connectcommand

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/discover"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/fabricoptions"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/failure"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/keeper"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/outlet"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/scrape"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/systemd"
	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/discovery"
)

// An autoconnect is a run of connect-all.
type autoconnect struct {
	fabricoptions.Held
	discover.Sources
	persistent bool
	noPublish  bool
	matching   bool
	quiet      bool
	dump       bool
	format     string
	metrics    scrape.Address
	version    string // of the program
	print      func(io.Writer, string) error

	cmd     *cobra.Command
	keeper  *keeper.Keeper
	survey  *discover.Survey
	failed  []error
	made    int // number of connections made
	already int // number of those that existed before

	connected map[string]discovery.Record // records by the controller's name
	again     []attempt                   // attempts for records whose controllers were given up
}

func newConnectAll(version string) *cobra.Command {
	a := autoconnect{version: version}
	cmd := &cobra.Command{
		Use:   "connect-all [-t rdma -a ADDR]",
		Short: "Discover subsystems, connect to them and stay connected, as nvme connect-all",
		Long: `Connect to every subsystem that a discovery controller and its referrals list, and
keep the connections until interrupted or disconnected. Without --traddr it starts
with the discovery controllers in nvme-cli's files: discovery.conf and config.json
of version 2, nvme-fabrics.conf of version 3. Existing connections are not an error.

With --persistent it stays connected to the discovery controllers and connects to
subsystems that they list later. A connection that is no longer listed is kept until
it is lost. Several connections to one subsystem are its paths. Namespaces are
published as by nvmeof connect.`,
		Example: "  nvmeof connect-all -t rdma -a 192.0.2.1 --persistent",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.run(cmd) },
	}
	a.Held.AddFlags(cmd, "")
	a.Sources.AddFlags(cmd)
	flags := cmd.Flags()
	a.metrics.AddTo(flags)
	flags.BoolVarP(&a.persistent, "persistent", "p", false, "stay connected to discovery controllers, and connect to subsystems that they list later")
	flags.BoolVarP(&a.matching, "matching", "m", false, "connect only to subsystems at the address of the discovery controller")
	flags.BoolVar(&a.quiet, "quiet", false, "do not report existing connections")
	flags.BoolVar(&a.noPublish, "no-publish", false, noPublishHelp)
	flags.BoolVarP(&a.dump, "dump-config", "O", false, "print the initial connections as a config.json, and end")
	flags.StringVarP(&a.format, "output-format", "o", "normal", "output format: normal|json")
	return cmd
}

func (a *autoconnect) run(cmd *cobra.Command) (err error) {
	a.cmd = cmd
	if a.print, err = failure.Pick(a.format, connectFormats); err != nil {
		return err
	}
	if err := a.Check(); err != nil {
		return err
	}
	entries, wrong := a.Entries(cmd, &a.Held)
	if a.dump && len(entries) > 0 {
		return errors.Join(discover.DumpConfig(cmd.OutOrStdout(), entries, &a.Held), wrong)
	}
	if len(entries) == 0 {
		return wrong
	}
	scraped, err := a.metrics.Listen()
	if err != nil {
		return err
	}
	defer outlet.Detach(cmd)()
	a.note(wrong)
	a.connected = map[string]discovery.Record{}
	if a.keeper, err = keeper.Start(cmd.ErrOrStderr(), a.noPublish); err != nil {
		return err
	}
	m := &measured{}
	m.keeper.Store(a.keeper)
	defer scrape.Serve(scraped, cmd.ErrOrStderr(), m.source(a.version))()
	defer func() { err = errors.Join(err, a.keeper.Close()) }()
	a.survey = &discover.Survey{Hosts: a.keeper.Hosts, Lenders: a.keeper.Lenders}
	given := fabricoptions.Given(cmd)
	seeds, wrong := a.survey.Seeds(entries, given)
	a.note(wrong)
	if err := a.keeper.Serve(); err != nil {
		return err
	}
	for i := range entries {
		if e := &entries[i]; !e.Discovery {
			if _, err := a.connect(fabricoptions.Over(e.Options, given)); err != nil {
				a.note(fmt.Errorf("%s: %w", e.Where(), err))
			}
		}
	}
	if a.persistent {
		return a.follow(seeds)
	}
	a.once(seeds)
	return a.stay()
}

// note reports an error that does not prevent further connections.
func (a *autoconnect) note(err error) {
	if err != nil {
		a.failed = append(a.failed, err)
		fmt.Fprintln(a.cmd.ErrOrStderr(), "nvmeof:", err)
	}
}

// A nothingError is returned when nothing was connected, for a reason that was printed before.
type nothingError struct{ why error }

func (e *nothingError) Error() string { return "no connection succeeded" }

func (e *nothingError) Unwrap() error { return e.why }

// connect connects, unless that connection exists already, and returns the controller's name.
func (a *autoconnect) connect(options map[string]string) (name string, err error) {
	h, err := fabricoptions.Parse(options)
	if err != nil {
		return "", err
	}
	w, identity, err := h.Wanted()
	if err != nil {
		return "", err
	}
	a.ended(a.keeper.Gone()) // an end reported from now on may be that of the controller found below
	if there := connected(a.cmd, w, h.Duplicate); there != "" {
		a.already++
		if !a.quiet {
			fmt.Fprintf(a.cmd.ErrOrStderr(), "nvmeof: %s at %s:%s is already connected: %s\n", nvmeof.Printable(w.NQN), w.Traddr, w.Trsvcid, there)
		}
		return there, nil
	}
	name, err = a.keeper.ConnectAnyhow(a.cmd.Context(), h, fabricoptions.AsWhom(options, identity))
	if err != nil {
		return "", err
	}
	a.made++
	a.ended(a.keeper.Gone()) // one that has ended may have had the same name
	return name, a.print(a.cmd.OutOrStdout(), name)
}

// An unusableError is returned for a record to which no connection is possible unless the record changes.
type unusableError struct {
	record *discovery.Record
	why    error
}

func (e *unusableError) Error() string { return fmt.Sprintf("%v: %v", e.record, e.why) }

func (e *unusableError) Unwrap() error { return e.why }

// connectRecord connects to a subsystem that a discovery controller lists.
func (a *autoconnect) connectRecord(r *discovery.Record) error {
	if a.matching && !a.survey.SameAddress(r) {
		return nil
	}
	options, err := a.survey.OfRecord(r)
	if err != nil {
		return &unusableError{r, err}
	}
	name, err := a.connect(options)
	if err != nil {
		return fmt.Errorf("%v: %w", r, err)
	}
	a.connected[name] = *r // also for an existing controller: the record may have returned
	return nil
}

// once connects to everything that is listed now, in the order in which it is found: a discovery controller that does
// not answer does not delay what another one lists.
func (a *autoconnect) once(seeds []discovery.Endpoint) {
	if len(seeds) == 0 {
		return
	}
	ctx := a.cmd.Context()
	f := a.find(false, seeds)
	for e := range f.events {
		switch {
		case ctx.Err() != nil:
		case e.Kind == discovery.Added:
			a.note(a.connectRecord(&e.Record))
		case e.Kind == discovery.Skipped:
			a.note(errors.New(e.String()))
		}
	}
	if f.err != nil && ctx.Err() == nil {
		a.note(&failure.Connect{Err: f.err})
	}
}

// A finding is a search through discovery controllers.
type finding struct {
	events chan discovery.Event // closed at the end
	err    error                // valid then
}

// find starts a search, which ends with the command's context at the latest. The caller must receive events until the
// channel is closed.
func (a *autoconnect) find(persistent bool, seeds []discovery.Endpoint) *finding {
	ctx, f := a.cmd.Context(), &finding{events: make(chan discovery.Event)}
	event := func(e discovery.Event) {
		select {
		case f.events <- e:
		case <-ctx.Done():
		}
	}
	go func() { // ends with the search
		defer close(f.events)
		f.err = discovery.Run(ctx, discovery.Config{Persistent: persistent, Event: event}, a.survey.Dialer(), seeds...)
	}()
	return f
}

// stay holds the connections, if there are any.
func (a *autoconnect) stay() error {
	ctx := a.cmd.Context()
	switch {
	case a.made > 0: // all may have been disconnected since
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case len(a.failed) > 0:
		return &nothingError{a.failed[0]}
	case a.already > 0:
		return nil
	default:
		return errors.New("nothing to connect to: the discovery controllers list no subsystem to this host")
	}
	systemd.Notify("READY=1")
	defer systemd.Notify("STOPPING=1")
	if err := a.keeper.Wait(ctx); err != nil {
		return &failure.Connect{Err: err}
	}
	return nil
}
