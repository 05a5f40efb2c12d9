package connections

import "fmt"

// News is what was reported of a controller: each state once, and while it is connected to again each
// reason why that fails.
type News struct {
	last    Status
	reasons map[string]bool // since the state is what it is
}

// maxReasons bounds the reasons that are reported of one loss, should each be another.
const maxReasons = 8

// NewsSince is where a controller is known to be as the status says.
func NewsSince(s Status) News { return News{last: s} }

// Line says what is new of a controller with this name; it is empty where nothing is. Another identifier is
// another controller: one may be lost and back between two calls.
func (n *News) Line(name string, now Status) string {
	same := now.State == n.last.State && now.ID == n.last.ID
	reason := ""
	if now.Err != nil {
		reason = now.Err.Error()
	}
	switch {
	case !same:
		n.reasons = map[string]bool{}
	case now.State != Connecting || reason == "" || n.reasons[reason] || len(n.reasons) == maxReasons:
		return ""
	}
	n.last = now
	line := fmt.Sprintf("%s: %s", name, now.State)
	if reason != "" {
		if n.reasons == nil {
			n.reasons = map[string]bool{}
		}
		n.reasons[reason] = true
		line += ": " + reason
	}
	return line
}
