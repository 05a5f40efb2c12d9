package doctor

import "net/netip"

// A Report holds the facts about a machine and the conclusions from them.
type Report struct {
	*Facts
	Transports []Transport `json:"transports"`
	Findings   []Finding   `json:"findings"`
	Works      bool        `json:"works"`
}

// A Transport is the choice of transport for an address.
type Transport struct {
	Address   netip.Addr `json:"address"`
	Interface string     `json:"interface"`
	Auto      string     `json:"auto"`
	Why       string     `json:"why"`
	Works     bool       `json:"works"` // the one that auto selects
	Problem   string     `json:"problem,omitempty"`
	Softroce  bool       `json:"softroce"`
	Verbs     bool       `json:"verbs"`

	device string // the RDMA device of the address according to sysfs
}

// A Finding is something that does not work, or could work better.
type Finding struct {
	Severity Severity `json:"severity"`
	What     string   `json:"what"`
	Mend     string   `json:"mend"`
}

// Severity says whether a finding prevents a transport of this program from working well.
type Severity string

// Values of Severity.
const (
	Problem Severity = "problem"
	Note    Severity = "note"
)

// Judge draws the conclusions from facts.
func Judge(f *Facts) *Report {
	r := &Report{Facts: f, Transports: []Transport{}, Findings: []Finding{}}
	for i := range f.Interfaces {
		r.judgeAddresses(&f.Interfaces[i])
	}
	r.judgeWorks()
	r.judgeDevices()
	r.judgeVerbs()
	r.judgePort()
	r.judgeLimits()
	r.judgeKernel()
	r.judgeCeph()
	r.judgeInstalled()
	return r
}

func (r *Report) add(s Severity, what, mend string) {
	r.Findings = append(r.Findings, Finding{s, what, mend})
}
