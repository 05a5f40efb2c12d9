package console

import (
	"fmt"
	"html/template"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/activity"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/nvmecli"
	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/config"
	"github.com/nvmeof-go/nvmeof/nvmeof/control"
	"github.com/nvmeof-go/nvmeof/nvmeof/events"
)

// perPage is the number of rows of a page.
const perPage = 100

// words returns the functions of the templates.
func words() template.FuncMap {
	return template.FuncMap{
		"rate": activity.Rate, "mb": activity.Megabytes, "took": activity.Duration, "age": activity.Age,
		"link": func(path string, pairs ...any) string {
			q := url.Values{}
			for i := 0; i+1 < len(pairs); i += 2 {
				q.Set(fmt.Sprint(pairs[i]), fmt.Sprint(pairs[i+1]))
			}
			return path + "?" + q.Encode()
		},
		"when": func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05Z") },
		"seen": func(x any) string { return nvmeof.Visible(fmt.Sprint(x)) },
	}
}

// A list is one page of rows.
type list[T any] struct {
	Rows           []T
	At, NQN, Query string // of the page: its path, its subsystem, and the search words
	Total          int
	Page, Pages    int
	Previous, Next int // page numbers; 0: none
	From, To       int
}

// some returns the page of rows that a request selects, among those that match its search words.
func some[T any](r *http.Request, all []T, text func(*T) string) list[T] {
	l := list[T]{At: r.URL.Path, NQN: r.FormValue("nqn"), Query: r.FormValue("q")}
	if want := strings.Fields(strings.ToLower(l.Query)); len(want) > 0 {
		all = slices.DeleteFunc(slices.Clone(all), func(x T) bool {
			t := strings.ToLower(text(&x))
			return slices.ContainsFunc(want, func(w string) bool { return !strings.Contains(t, w) })
		})
	}
	l.Total, l.Pages = len(all), max(1, (len(all)+perPage-1)/perPage)
	n, _ := strconv.Atoi(r.FormValue("page"))
	l.Page = min(max(n, 1), l.Pages)
	from := (l.Page - 1) * perPage
	l.Rows = all[from:min(from+perPage, len(all))]
	l.From, l.To = min(from+1, len(all)), from+len(l.Rows)
	l.Previous = l.Page - 1
	if l.Page < l.Pages {
		l.Next = l.Page + 1
	}
	return l
}

// A space is a namespace in a list.
type space struct {
	Subsystem nvmeof.NQN
	NSID      int
	What      string
	Size      string
	State     spaceState
	Now       activity.Namespace
}

// A spaceState is the state of a namespace, and why hosts cannot use it fully.
type spaceState struct {
	Ready bool
	Why   string   // why it waits; empty: it does not
	Words []string // restrictions set by an administrator or a host, or of its store
}

// stateOf returns the state of a namespace. If the namespace is not served, now is nil and served the zero value.
func stateOf(n *config.Namespace, now *activity.Namespace, served *control.Served, why string) (s spaceState) {
	s.Ready, s.Why = now != nil && now.Ready, why
	if served.Paused {
		s.Words = append(s.Words, "paused")
	}
	switch {
	case n.ReadOnly:
		s.Words = append(s.Words, "protected")
	case served.ReadOnly:
		s.Words = append(s.Words, "read-only store")
	}
	switch served.Protected {
	case "":
	case control.ProtectedUntilOff:
		s.Words = append(s.Words, "protected by a host until the target ends")
	default:
		s.Words = append(s.Words, "protected by a host")
	}
	return s
}

type spaceKey struct {
	nqn  nvmeof.NQN
	nsid int
}

// spaces returns the namespaces of some subsystems.
func spaces(of []*config.Subsystem, report *activity.Report, status *control.Status) (all []space) {
	served, waits := map[spaceKey]control.Served{}, map[spaceKey]string{}
	for _, x := range status.Served {
		served[spaceKey{x.Subsystem, x.NSID}] = x
	}
	for _, w := range status.Waiting {
		waits[spaceKey{w.Subsystem, w.NSID}] = w.Why
	}
	now := map[spaceKey]*activity.Namespace{}
	for i := range report.Namespaces {
		n := &report.Namespaces[i]
		now[spaceKey{n.Subsystem, n.NSID}] = n
	}
	for _, s := range of {
		for _, n := range s.Namespaces {
			key := spaceKey{s.NQN, n.NSID}
			is, at := served[key], now[key]
			x := space{Subsystem: s.NQN, NSID: n.NSID, What: exported(n), State: stateOf(n, at, &is, waits[key])}
			if at != nil {
				x.Now, x.Size = *at, config.Size(at.Size).String()
			}
			all = append(all, x)
		}
	}
	return all
}

func exported(n *config.Namespace) string {
	switch {
	case n.Memory != nil:
		return "memory"
	case n.File != nil:
		return "file " + string(n.File.Path)
	case n.RBD != nil:
		return "image " + n.RBD.Image
	}
	return "device " + string(n.Path())
}

func (x *space) text() string { return fmt.Sprintf("%s/%d %s", x.Subsystem, x.NSID, x.What) }

// An overviewView is the target as a tree, with long lists omitted.
type overviewView struct {
	Status     control.Status
	Total      activity.Total
	Listeners  []listener
	Subsystems list[subsystemRow]
}

type subsystemRow struct {
	NQN          nvmeof.NQN
	AllowAnyHost bool
	Hosts        []*config.Host
	MoreHosts    int
	Spaces       []space
	MoreSpaces   int
}

// A listener is a listener of the document, and its state.
type listener struct {
	*config.Listener
	At []netip.AddrPort
}

const (
	fewHosts  = 8
	fewSpaces = 20
)

func (s *server) overview(w http.ResponseWriter, r *http.Request, who control.Caller) {
	doc, report := s.cfg.Manager.Document(), s.report()
	v := overviewView{Status: s.cfg.Manager.Status(), Total: report.Total}
	v.Listeners = listeners(doc, nil, &v.Status)
	found := some(r, doc.Subsystems, func(x **config.Subsystem) string {
		text := string((*x).NQN)
		for _, n := range (*x).Namespaces {
			text += " " + exported(n)
		}
		for _, h := range (*x).Hosts {
			text += " " + string(h.NQN)
		}
		return text
	})
	v.Subsystems = list[subsystemRow]{At: found.At, Query: found.Query, Total: found.Total, Page: found.Page, Pages: found.Pages, Previous: found.Previous, Next: found.Next, From: found.From, To: found.To}
	for _, x := range found.Rows {
		all := spaces([]*config.Subsystem{x}, report, &v.Status)
		v.Subsystems.Rows = append(v.Subsystems.Rows, subsystemRow{x.NQN, x.AllowAnyHost, x.Hosts[:min(len(x.Hosts), fewHosts)], max(len(x.Hosts)-fewHosts, 0),
			all[:min(len(all), fewSpaces)], max(len(all)-fewSpaces, 0)})
	}
	s.show(w, r, who, "overview", "Overview", v)
}

// listeners returns the listeners of a document; with a subsystem, those through which it is served.
func listeners(doc *config.Document, of *config.Subsystem, now *control.Status) (all []listener) {
	for _, l := range doc.Listeners {
		if of != nil && len(of.Listeners) > 0 && !slices.Contains(of.Listeners, l.ID) {
			continue
		}
		x := listener{Listener: l}
		if !l.Wildcard() {
			x.At = append(x.At, netip.AddrPort(l.Address.AddrPort))
		}
		for _, a := range now.Addresses {
			if at, err := netip.ParseAddrPort(a.Address); err == nil && a.Listener == l.ID {
				x.At = append(x.At, at)
			} else if ip, err := netip.ParseAddr(a.Address); err == nil && a.Listener == l.ID {
				x.At = append(x.At, netip.AddrPortFrom(ip, l.Address.Port()))
			}
		}
		all = append(all, x)
	}
	return all
}

type subsystemView struct {
	*config.Subsystem
	Spaces list[space]
	Shown  list[*config.Host]
	Lines  []string // to type on a host
	Next   int      // the lowest free NSID
	SaveTo bool
}

func (s *server) subsystem(w http.ResponseWriter, r *http.Request, who control.Caller) {
	doc := s.cfg.Manager.Document()
	x := find(doc, nvmeof.NQN(r.FormValue("nqn")))
	if x == nil {
		s.missing(w, r, who, "no such subsystem; it may have been removed")
		return
	}
	status := s.cfg.Manager.Status()
	v := subsystemView{Subsystem: x, Next: free(x), Lines: connectLines(doc, x, &status), SaveTo: status.File != ""}
	v.Spaces = some(r, spaces([]*config.Subsystem{x}, s.report(), &status), (*space).text)
	v.Shown = list[*config.Host]{Rows: x.Hosts[:min(len(x.Hosts), 10*perPage)], Total: len(x.Hosts)}
	s.show(w, r, who, "subsystem", string(x.NQN), v)
}

func find(doc *config.Document, nqn nvmeof.NQN) *config.Subsystem {
	for _, x := range doc.Subsystems {
		if x.NQN == nqn {
			return x
		}
	}
	return nil
}

// free returns the lowest free NSID.
func free(x *config.Subsystem) int {
	used := map[int]bool{}
	for _, n := range x.Namespaces {
		used[n.NSID] = true
	}
	n := 1
	for used[n] {
		n++
	}
	return n
}

// connectLines returns the command lines that connect a Linux host.
func connectLines(doc *config.Document, x *config.Subsystem, now *control.Status) (lines []string) {
	for _, l := range listeners(doc, x, now) {
		for _, at := range l.At {
			lines = append(lines, ConnectLine(at, x))
		}
	}
	return lines
}

// ConnectLine returns the command line that connects a Linux host to a subsystem at an address, with the option for
// hosts with a key.
func ConnectLine(at netip.AddrPort, x *config.Subsystem) string {
	line := nvmecli.ConnectLine(at, quoted(string(x.NQN)))
	keyed := 0
	for _, h := range x.Hosts {
		if h.KeyFile != "" {
			keyed++
		}
	}
	switch {
	case keyed == 0:
		return line
	case keyed == len(x.Hosts) && !x.AllowAnyHost:
		return line + " " + nvmecli.Secret
	default: // a shell takes it as a comment
		return line + "  # a host with a key: " + nvmecli.Secret
	}
}

// quoted quotes a word for a shell.
func quoted(s string) string {
	s = nvmeof.Visible(s)
	for _, c := range s {
		if !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.ContainsRune(".:_-", c)) {
			return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
		}
	}
	return s
}

type namespaceView struct {
	*config.Namespace
	Subsystem nvmeof.NQN
	What      string
	Now       *activity.Namespace // nil: not served yet
	Size      string
	State     spaceState
	Live      string // path from which the page's script reads samples
	Resizes   bool
	SaveTo    bool
}

func (s *server) namespace(w http.ResponseWriter, r *http.Request, who control.Caller) {
	nqn := nvmeof.NQN(r.FormValue("nqn"))
	nsid, _ := strconv.Atoi(r.FormValue("nsid"))
	x := find(s.cfg.Manager.Document(), nqn)
	v := namespaceView{Subsystem: nqn}
	if x != nil {
		for _, n := range x.Namespaces {
			if n.NSID == nsid {
				v.Namespace = n
			}
		}
	}
	if v.Namespace == nil {
		s.missing(w, r, who, "no such namespace; it may have been removed")
		return
	}
	v.What, v.Resizes = exported(v.Namespace), v.File != nil
	status, only := s.cfg.Manager.Status(), *x
	only.Namespaces = []*config.Namespace{v.Namespace}
	v.State = spaces([]*config.Subsystem{&only}, s.report(), &status)[0].State
	if v.Now = namespaceOf(s.report(), nqn, nsid); v.Now != nil {
		v.Size = config.Size(v.Now.Size).String()
	}
	q := url.Values{"nqn": {string(nqn)}, "nsid": {strconv.Itoa(nsid)}}
	v.Live, v.SaveTo = "/live?"+q.Encode(), status.File != ""
	s.show(w, r, who, "namespace", fmt.Sprintf("%s, namespace %d", nqn, nsid), v)
}

func namespaceOf(report *activity.Report, nqn nvmeof.NQN, nsid int) *activity.Namespace {
	for i := range report.Namespaces {
		if n := &report.Namespaces[i]; n.Subsystem == nqn && n.NSID == nsid {
			return n
		}
	}
	return nil
}

func (s *server) connections(w http.ResponseWriter, r *http.Request, who control.Caller) {
	l := some(r, s.report().Controllers, func(c *activity.Controller) string {
		return fmt.Sprintf("%s %s %s %d", c.Host, c.Subsystem, c.Peer, c.ID)
	})
	s.show(w, r, who, "connections", "Connections", l)
}

// maxShown is how many of the last events the page covers.
const maxShown = 10000

func (s *server) events(w http.ResponseWriter, r *http.Request, who control.Caller) {
	var all []events.Event
	if log := s.cfg.Events; log != nil {
		last := log.Last()
		all = log.After(last-min(last, maxShown), maxShown)
		slices.Reverse(all)
	}
	l := some(r, all, func(e *events.Event) string {
		return strings.Join([]string{string(e.Severity), string(e.Kind), e.Subsystem, e.Host, e.Address, e.Text}, " ")
	})
	s.show(w, r, who, "events", "Events", l)
}

type healthView struct {
	control.Status
	Total    activity.Total
	Shards   []activity.Shard
	NotReady list[activity.Namespace]
	Erasing  []*config.Erasing // by the group of gateways
}

func (s *server) health(w http.ResponseWriter, r *http.Request, who control.Caller) {
	report := s.report()
	v := healthView{Status: s.cfg.Manager.Status(), Total: report.Total, Shards: report.Shards, Erasing: control.Present(s.cfg.Manager).Erasing}
	away := slices.DeleteFunc(slices.Clone(report.Namespaces), func(n activity.Namespace) bool { return n.Ready })
	v.NotReady = some(r, away, func(*activity.Namespace) string { return "" })
	s.show(w, r, who, "health", "Health", v)
}
