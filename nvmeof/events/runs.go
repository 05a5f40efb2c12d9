package events

import (
	"bytes"
	"encoding/json"
	"slices"
)

// A run is the time in which a process had the file. What two runs have in common are the events
// up to the number at which the later one began: what the earlier one has numbered, and not
// written, has no number any more.
type run struct {
	ID   string `json:"id"`
	From uint64 `json:"from"` // the last number that was in the file
}

// maxRuns is how many runs the file knows: that many fit into a record, whatever the numbers.
const maxRuns = 16

// runsMagic begins the record of the runs, which follows those of the events.
const runsMagic = "nvmeof-runs "

// runsOffset is where that record is. It is not in the header: one that is torn costs no more
// than that those who resume get events again.
func runsOffset(entries int) int64 { return int64(1+entries) * recordSize }

// begin adds the present run to those before. Called before the log is anybody's.
func (l *Log) begin(before []run) {
	all := append(slices.Clip(before), run{l.run, l.seq})
	l.begun = all[max(0, len(all)-maxRuns):]
}

// common is the last number that a run has in common with the last one of all; 0: it is not known.
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
	text, _ := json.Marshal(all) // nothing in it can fail
	return seal(append([]byte(runsMagic), text...))
}

// decodeRuns returns none where the record is not there, or damaged.
func decodeRuns(b []byte) (all []run) {
	text, ok := bytes.CutPrefix(unseal(b[:min(len(b), recordSize)]), []byte(runsMagic))
	if !ok || json.Unmarshal(text, &all) != nil || len(all) > maxRuns {
		return nil
	}
	return all
}
