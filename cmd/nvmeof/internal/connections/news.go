package connections

import "fmt"

// News records what was reported of a controller: each state once, and each reason once why it cannot be reconnected.
type News struct {
	last    Status
	reasons map[string]bool // since the last change of state
}

// maxReasons is the maximum number of reasons reported per loss of a controller.
const maxReasons = 8

// NewsSince returns the News of a controller whose status s is known already.
func NewsSince(s Status) News { return News{last: s} }

// Line returns the line to report of a controller with this name, or "" if nothing is new. A changed controller
// identifier counts as new: a controller may be lost and reconnected between two calls.
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
