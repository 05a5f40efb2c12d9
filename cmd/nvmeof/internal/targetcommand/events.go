package targetcommand

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"go.uber.org/zap"

	"github.com/nvmeof-go/nvmeof/nvmeof/control"
	"github.com/nvmeof-go/nvmeof/nvmeof/events"
)

// openEvents opens the log of events and the audit. It is called before the sandbox is entered, since open files stay
// usable there.
func (d *Daemon) openEvents() (*events.Log, error) {
	cfg := events.Config{Entries: d.Document.Events.Entries, Failed: d.eventsFailed}
	log := events.New(cfg)
	if path := string(d.Document.Events.File); path != "" {
		kept, err := opened(&d.opening, path, func() (*events.Log, error) {
			if err := control.Apart(d.Document, "events.file", d.File); err != nil {
				return nil, err
			}
			return events.Open(path, cfg)
		})
		switch {
		case errors.Is(err, events.ErrInUse):
			return nil, err
		case err != nil: // hosts are served even without a log of events
			d.unkept = []control.Trouble{{Export: path, Why: "events are kept only in memory, and are lost when the target ends: " + err.Error()}}
			d.Log.Error("events are not written to the file, which is not changed, and are lost when the target ends", zap.String("file", path), zap.Error(err),
				zap.String("remedy", "fix that, or use another file, and restart the target"))
		default:
			log = kept
		}
		if n := log.Stats().Damaged; n > 0 {
			d.Log.Warn("events: damaged events are left out", zap.Int("events", n), zap.String("file", path))
		}
	}
	what := fmt.Sprintf("nvmeof %s starts, process %d", d.version, os.Getpid())
	if d.File != "" {
		what += ", with " + d.File
	}
	log.Begin(what)
	for _, x := range d.unkept {
		log.Record(events.Event{Kind: events.Change, Severity: events.Error, Text: x.Export + ": " + x.Why})
	}
	var err error
	d.audit, err = openAudit(&d.opening, d.Document.Audit, d.Log, log, func() error { return control.Apart(d.Document, "audit.file", d.File) })
	if err != nil {
		return nil, d.endEvents(log, err)
	}
	return log, nil
}

// troubles reports the problems with the files of events and of the audit.
func (d *Daemon) troubles() []control.Trouble {
	return append(slices.Clone(d.unkept), d.audit.troubles()...)
}

func (d *Daemon) eventsFailed(err error) {
	path := zap.String("file", string(d.Document.Events.File))
	if err == nil {
		d.Log.Info("events are written again", path)
		return
	}
	d.Log.Error("events are not written to the file, and are lost when the target ends", path, zap.Error(err),
		zap.String("remedy", "check its file system"))
}

// endEvents records how the target has ended, and writes the remaining events.
func (d *Daemon) endEvents(log *events.Log, why error) error {
	e := events.Event{Kind: events.Stop, Severity: events.Info, Text: "nvmeof stopped"}
	if why != nil {
		e.Severity, e.Text = events.Error, "nvmeof stopped: "+why.Error()
	}
	log.Record(e)
	return errors.Join(why, d.audit.end(), log.Close())
}
