package targetcommand

import (
	"errors"
	"fmt"
	"net"
	"path/filepath"

	"github.com/spf13/pflag"
	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/console"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/sandbox"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/scrape"
	"github.com/nvmeof-go/nvmeof/nvmeof/config"
	"github.com/nvmeof-go/nvmeof/nvmeof/control"
	"github.com/nvmeof-go/nvmeof/nvmeof/events"
)

// ports holds the listeners that do not serve hosts. Each may be nil.
type ports struct {
	scraped net.Listener
	console *console.Socket
}

// consoleFile is the name of the console's listener among [control.Moved]'s files.
const consoleFile = "console"

// foreseePorts checks the addresses of metrics and console, without which a target does not start, and the console's
// files. It listens at both addresses at the same time for a moment, since they must differ.
func foreseePorts(doc *config.Document) (found config.Problems) {
	add := func(err error) {
		if err == nil {
			return
		}
		fix := "a target does not start until it is valid"
		if errors.Is(err, unix.EADDRINUSE) {
			fix = "a target does not start until it is valid, unless it is used by this target, which runs"
		}
		found = append(found, config.Problem{Text: err.Error(), Fix: fix})
	}
	at := scrape.Address(doc.Metrics.Listen)
	scraped, err := at.Listen()
	add(err)
	if scraped != nil {
		defer scraped.Close()
	}
	c, err := console.Listen(doc.Console, true, func(begin func() (net.Listener, error)) (net.Listener, error) { return begin() })
	add(err)
	if c != nil {
		defer c.Close()
	}
	unusable, outdated := console.Check(doc.Console) // also if the address is in use, for example by the target that is to be restarted
	if unusable != nil {
		found = append(found, config.Problem{Text: unusable.Error(), Fix: nobodyIsLetIn})
	}
	if outdated != nil {
		found = append(found, config.Problem{Text: fmt.Sprintf("console: %s: %v", doc.Console.TLS.Certificate, outdated), Fix: "browsers and programs refuse it until then"})
	}
	return found
}

// nobodyIsLetIn is the consequence of console files that cannot be used.
const nobodyIsLetIn = "no user can log in until that is fixed"

// takePorts opens the listeners before anything else is started. Bad files of the console prevent the start only with
// flags, or when the target of another process is taken over, which then continues: in these cases the user sees the
// error at once. Otherwise hosts must not lose their storage for it: not when a process continues with its own target,
// nor with a configuration file, as of a service whose output nobody may read.
func (d *Daemon) takePorts(in *handedOver) (p ports, err error) {
	at := scrape.Address(d.Document.Metrics.Listen)
	if p.scraped, err = d.listen(metricsFile, at.Listen, in); err != nil {
		return ports{}, err
	}
	for _, path := range []config.Path{d.Document.Console.Tokens, d.Document.Console.TLS.Certificate, d.Document.Console.TLS.Key} {
		if path != "" {
			d.opening.begin(string(path))
			defer d.opening.end(string(path))
		}
	}
	anyway := in != nil && in.conn == nil || in == nil && d.File != ""
	if p.console, err = console.Listen(d.Document.Console, anyway, func(begin func() (net.Listener, error)) (net.Listener, error) {
		return d.listen(consoleFile, begin, in)
	}); err != nil {
		p.close()
		return ports{}, err
	}
	return p, nil
}

func (p ports) close() {
	if p.scraped != nil {
		_ = p.scraped.Close()
	}
	if p.console != nil {
		_ = p.console.Close()
	}
}

// serveConsole serves the console at a socket, which may be nil.
func (d *Daemon) serveConsole(at *console.Socket, m *control.Manager, happened *events.Log) (end func()) {
	if at == nil {
		return func() {}
	}
	if err := at.Unusable(); err != nil {
		d.Log.Error("cannot use the files of the console: "+nobodyIsLetIn, zap.Error(err))
		happened.Record(events.Event{Kind: events.Start, Severity: events.Error, Text: err.Error() + ": " + nobodyIsLetIn})
	}
	fmt.Fprintf(d.Out, "console at %s\n", at.URL())
	return console.Serve(at, console.Config{Manager: m, Events: happened, Log: d.Log, Version: d.version})
}

// addPorts adds the flags of addresses that do not serve hosts.
func (f *Flags) addPorts(flags *pflag.FlagSet) {
	f.metrics.AddTo(flags)
	flags.BoolVar(&f.metricsHosts, "metrics-hosts", false, "with --metrics: export a series for each connected host")
	f.console.addTo(flags)
}

// consoleFlags holds --console and the flags that belong to it.
type consoleFlags struct {
	listen                   config.HTTPAddress
	tokens, certificate, key string
}

func (c *consoleFlags) addTo(flags *pflag.FlagSet) {
	flags.Var((*scrape.Address)(&c.listen), "console", "address and port of the API and the web console, as 127.0.0.1:9430, for users with a token (default: none)")
	flags.StringVar(&c.tokens, "console-tokens", "", "with --console: file of tokens, which nvmeof token create writes")
	flags.StringVar(&c.certificate, "console-certificate", "", "with --console: certificate, in PEM; required unless the address is a loopback address")
	flags.StringVar(&c.key, "console-key", "", "with --console: private key of the certificate, in PEM")
}

// document returns the equivalent part of a document.
func (c *consoleFlags) document() config.Console {
	path := func(name string) config.Path {
		if name == "" {
			return ""
		}
		if path, err := filepath.Abs(name); err == nil {
			return config.Path(path)
		}
		return config.Path(name)
	}
	return config.Console{Listen: c.listen, Tokens: path(c.tokens), TLS: config.ConsoleTLS{Certificate: path(c.certificate), Key: path(c.key)}}
}

// addConsole adds the files that the console rereads when they change. A file is replaced by renaming another one over
// it, so the directories are added.
func addConsole(p *sandbox.Places, c config.Console) {
	for _, path := range []config.Path{c.Tokens, c.TLS.Certificate, c.TLS.Key} {
		if path == "" {
			continue
		}
		p.Read = append(p.Read, filepath.Dir(string(path)))
		if real, err := filepath.EvalSymlinks(string(path)); err == nil { // symbolic links, as those of Let's Encrypt
			p.Read = append(p.Read, filepath.Dir(real))
		}
	}
}
