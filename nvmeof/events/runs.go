package events

import (
	"bytes"
	"encoding/json"
	"slices"
)

// A run is the time during which one process used the file. Two runs share the events up to the number at which the
// later one began. Events that the earlier run numbered but did not write are lost, and their numbers are assigned
// again.
type run struct {
	ID   string `json:"id"`
	From uint64 `json:"from"` // number of the last event in the file when the run began
}

// maxRuns is how many runs the file lists. A record can hold them whatever their numbers are.
const maxRuns = 16

// runsMagic begins the record of the runs, which follows the records of the events.
const runsMagic = "nvmeof-runs "

// runsOffset returns the offset of that record. It is separate from the header so that a torn write of it is
// harmless: clients that resume get some events again.
func runsOffset(entries int) int64 { return int64(1+entries) * recordSize }

// begin appends the present run to the earlier ones. It must be called before l is shared.
func (l *Log) begin(before []run) {
	all := append(slices.Clip(before), run{l.run, l.seq})
	l.begun = all[max(0, len(all)-maxRuns):]
}

// common returns the number of the last event that the run shares with the present one, or 0 if that is unknown.
func common(all []run, id string) uint64 {
	i := slices.IndexFunc(all, func(r run) bool { return r.ID == id })
	if i < 0 || i == len(all)-1 {
		return 0
	}
	least := all[i+1].From
	for _, r := range all[i+1:] {
		least = min(least, r.From)
	}
	return least
}

func encodeRuns(all []run) []byte {
	text, _ := json.Marshal(all) // runs can always be encoded
	return seal(append([]byte(runsMagic), text...))
}

// decodeRuns returns nil if the record is missing or damaged.
func decodeRuns(b []byte) (all []run) {
	text, ok := bytes.CutPrefix(unseal(b[:min(len(b), recordSize)]), []byte(runsMagic))
	if !ok || json.Unmarshal(text, &all) != nil || len(all) > maxRuns {
		return nil
	}
	return all
}
