package events_test

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/nvmeof-go/nvmeof/nvmeof/events"
)

// A log in a file has the events before a restart.
func Example() {
	dir, err := os.MkdirTemp("", "events")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	for _, version := range []string{"1.0", "1.1"} {
		log, err := events.Open(filepath.Join(dir, "events"), events.Config{})
		if err != nil {
			fmt.Println(err)
			return
		}
		log.Begin("version " + version)
		log.Record(events.Event{Kind: events.Stop, Severity: events.Info, Text: "on request"})
		if version == "1.1" {
			for _, e := range log.After(0, 0) {
				fmt.Println(e.Seq, e.Kind, e.Text)
			}
		}
		if err := log.Close(); err != nil {
			fmt.Println(err)
		}
	}
	// Output:
	// 1 start version 1.0
	// 2 stop on request
	// 3 start version 1.1
	// 4 stop on request
}
