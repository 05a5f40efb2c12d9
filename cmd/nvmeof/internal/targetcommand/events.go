package targetcommand

import (
	"errors"
	"fmt"
	"os"

	"go.uber.org/zap"

	"github.com/nvmeof-go/nvmeof/nvmeof/events"
)

// openEvents begins the log of events, and the audit: before the sandbox, after which their files
// stay open.
func (d *Daemon) openEvents() (*events.Log, error) {
	cfg := events.Config{Entries: d.Document.Events.Entries, Failed: d.eventsFailed}
	log := events.New(cfg)
	if path := string(d.Document.Events.File); path != "" {
		var err error
		if log, err = opened(&d.opening, path, func() (*events.Log, error) { return events.Open(path, cfg) }); err != nil {
			return nil, err
		}
		if n := log.Stats().Damaged; n > 0 {
			d.Log.Warn("events: some are damaged, and left out", zap.Int("events", n), zap.String("file", path))
		}
	}
	what := fmt.Sprintf("nvmeof %s starts, process %d", d.version, os.Getpid())
	if d.File != "" {
		what += ", with " + d.File
	}
	log.Begin(what)
	var err error
	if d.audit, err = openAudit(&d.opening, d.Document.Audit, d.Log, log); err != nil {
		return nil, d.endEvents(log, err)
	}
	return log, nil
}

func (d *Daemon) eventsFailed(err error) {
	path := zap.String("file", string(d.Document.Events.File))
	if err == nil {
		d.Log.Info("events are written again", path)
		return
	}
	d.Log.Error("events are not written, and are lost with the end of the target", path, zap.Error(err),
		zap.String("remedy", "see what is wrong with its file system"))
}

// endEvents records how the target has ended, and writes what is left.
func (d *Daemon) endEvents(log *events.Log, why error) error {
	e := events.Event{Kind: events.Stop, Severity: events.Info, Text: "nvmeof stopped"}
	if why != nil {
		e.Severity, e.Text = events.Error, "nvmeof stopped: "+why.Error()
	}
	log.Record(e)
	return errors.Join(why, d.audit.end(), log.Close())
}
