package control

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/config"
)

// A call is a request to the API.
type call struct {
	context context.Context // context of the request
	manager *Manager
	who     *Caller             // nil: it came through the socket
	path    func(string) string // returns a variable of the path
	query   url.Values
	body    []byte
	sure    bool   // the request names what it removes, so that loss of its data needs no force
	changes []Step // changes that were made
}

// A route is a method and a path of the API, with its function and types.
type route struct {
	method, path string
	id, summary  string
	query        []string // names of options
	body, answer any      // values of the types; nil: none
	partial      bool     // the body has only some fields of its type
	serve        func(*call) (any, error)
}

// done is an answer without content.
type done struct{}

// changeOptions are the options of every edit.
var changeOptions = []string{"dry-run", "save", fileOption, "force"}

// fileOption is the option whose value is the path of a file to save to.
const fileOption = "file"

// uuidOption is the option whose value is the UUID that the namespace in the path must have. Its NSID could be that
// of another namespace by now.
const uuidOption = "uuid"

// namespaceOptions are the options of edits of an existing namespace.
var namespaceOptions = append(slices.Clone(changeOptions), uuidOption)

// expects returns an error unless the namespace is the one that the option names.
func (c *call) expects(d *config.Document) error {
	want := c.query.Get(uuidOption)
	if want == "" {
		return nil
	}
	s, err := c.subsystem(d)
	if err != nil {
		return err
	}
	n, err := namespaces(s).find(c.path("nsid"))
	if err == nil && n.UUID.String() != want {
		return &NotFoundError{Kind: "namespace", Name: c.path("nsid") + " with the UUID " + want}
	}
	return err
}

// Result is the result of an edit, in the form of the API.
type Result struct {
	DryRun   bool     `json:"dry-run,omitempty"`
	Changes  []Step   `json:"changes"`
	Warnings []string `json:"warnings,omitempty"`
	Saved    bool     `json:"saved,omitempty"`
}

// Step is one change.
type Step struct {
	Op        config.Op            `json:"op"`
	Kind      config.Kind          `json:"kind"`
	Name      string               `json:"name,omitempty"`
	Subsystem nvmeof.NQN           `json:"subsystem,omitempty"`
	Listener  int                  `json:"listener,omitempty"`
	Fields    []config.FieldChange `json:"fields,omitempty"`
	Loses     bool                 `json:"loses-data,omitempty"`
	Text      string               `json:"text"`
}

// Steps returns changes in the form of the API.
func Steps(changes []config.Change) []Step {
	out := []Step{}
	for _, c := range changes {
		out = append(out, Step{c.Op, c.Kind, c.Name, c.Subsystem, c.Listener, c.Fields, c.Loses, c.String()})
	}
	return out
}

// edit makes an edit with the options of the request.
func (c *call) edit(edit func(*config.Document) error) (any, error) {
	o := c.options()
	return c.result(o)(replace(c.manager, func(d *config.Document) error {
		before := d.Successor()
		if err := c.expects(d); err != nil {
			return err
		}
		if err := edit(d); err != nil {
			return err
		}
		return c.who.mayName(before, d)
	}, o))
}

// patch makes an edit with the patch in the body. It parses that first, since others wait while a document is
// edited.
func (c *call) patch(edit func(*config.Document, *config.Patch) error) (any, error) {
	p, err := config.ParsePatch("", c.body)
	if err != nil {
		return nil, err
	}
	return c.edit(func(d *config.Document) error { return edit(d, p) })
}

func (c *call) options() Options {
	return Options{DryRun: c.option("dry-run"), Save: c.option("save") || c.query.Has(fileOption), File: c.query.Get(fileOption), Force: c.option("force") || c.sure, empty: c.option(emptyOption), stays: c.context.Err}
}

// result returns a function that converts the results of a change made with these options.
func (c *call) result(o Options) func(*Outcome, error) (any, error) {
	return func(out *Outcome, err error) (any, error) {
		if out == nil {
			return nil, err
		}
		c.changes = Steps(out.Changes)
		r := Result{DryRun: o.DryRun, Changes: c.changes, Saved: o.Save && !o.DryRun}
		r.warn(out.Warnings)
		switch {
		case err != nil && o.DryRun:
			return nil, &plannedError{r, err}
		case err != nil:
			return nil, err
		}
		return r, nil
	}
}

func (r *Result) warn(warnings config.Problems) {
	for _, w := range warnings {
		r.Warnings = append(r.Warnings, w.String())
	}
}

func (c *call) option(name string) bool { return c.query.Get(name) == "true" }

func (c *call) subsystem(d *config.Document) (*config.Subsystem, error) {
	return subsystems(d).find(c.path("nqn"))
}

// number returns a number in the path.
func (c *call) number(name string) (int, error) {
	n, err := strconv.Atoi(c.path(name))
	if err != nil {
		return 0, config.Problems{{Text: name + " " + strconv.Quote(c.path(name)) + " is not a number"}}
	}
	return n, nil
}

// routes returns all routes.
func routes() []route {
	return slices.Concat(targetRoutes(), listenerRoutes(), subsystemRoutes(), accessRoutes(), storageRoutes(), reservationRoutes(), eventRoutes(), groupRoutes())
}

func targetRoutes() []route {
	return []route{
		{"GET", "/v1/status", "getStatus", "Get the state of the target, including what it waits for", nil, nil, Status{}, false,
			func(c *call) (any, error) { return c.manager.Status(), nil }},
		{"GET", "/v1/measures", "getMeasures", "Get the counters of the target, at most once a second; the difference of two readings gives the rates", nil, nil, Measures{}, false,
			func(c *call) (any, error) { return recentMeasures(c.manager), nil }},
		{"GET", "/v1/config", "getConfig", "Get the current configuration", nil, nil, config.Document{}, false,
			func(c *call) (any, error) { return c.manager.present(), nil }},
		{"PUT", "/v1/config", "applyConfig", "Apply a configuration: all changes, or none", changeOptions, config.Document{}, Result{}, false,
			func(c *call) (any, error) {
				want, _, err := config.Parse("", c.body)
				if err != nil {
					return nil, err
				}
				o := c.options()
				return c.result(o)(c.manager.Apply(want, o))
			}},
		{"POST", "/v1/config/save", "saveConfig", "Write the configuration to a file, or to the one with which the target was started", []string{fileOption}, nil, Result{}, false,
			func(c *call) (any, error) {
				warnings, err := c.manager.Save(c.query.Get(fileOption))
				r := Result{Changes: []Step{}, Saved: true}
				r.warn(warnings)
				return r, err
			}},
		{"POST", "/v1/keys/reread", "rereadKeys", "Reread all key files", nil, nil, done{}, false,
			func(c *call) (any, error) {
				_, err := c.manager.RereadKeys()
				return done{}, err
			}},
		{"POST", "/v1/takeover", "takeOver", "Hand the connections of hosts over to another process of the same user, and end; see nvmeof target --takeover", nil, takeOver{}, done{}, false, serveTakeOver},
		{"GET", "/v1/controllers", "listControllers", "List the connected controllers", nil, nil, []Controller{}, false,
			func(c *call) (any, error) { return c.manager.Controllers(), nil }},
		{"DELETE", "/v1/subsystems/{nqn}/controllers/{id}", "removeController", "Disconnect a host; it may reconnect", nil, nil, done{}, false,
			func(c *call) (any, error) {
				id, err := c.number("id")
				if err != nil {
					return nil, err
				}
				return done{}, c.manager.Disconnect(nvmeof.NQN(c.path("nqn")), id)
			}},
		{"GET", "/v1/referrals", "listReferrals", "List the referrals of the discovery log", nil, nil, []*config.Referral{}, false,
			func(c *call) (any, error) { return listOf(c.manager.present().Referrals), nil }},
		{"POST", "/v1/referrals", "addReferral", "Add a referral", changeOptions, config.Referral{}, Result{}, false,
			func(c *call) (any, error) { return added(c, referrals) }},
		{"DELETE", "/v1/referrals/{address}", "removeReferral", "Remove a referral", changeOptions, nil, Result{}, false,
			func(c *call) (any, error) {
				return c.edit(func(d *config.Document) error { return referrals(d).remove(addressName(c.path("address"))) })
			}},
	}
}

func listenerRoutes() []route {
	return []route{
		{"GET", "/v1/listeners", "listListeners", "List the listeners", nil, nil, []*config.Listener{}, false,
			func(c *call) (any, error) { return listOf(c.manager.present().Listeners), nil }},
		{"POST", "/v1/listeners", "addListener", "Add a listener", changeOptions, config.Listener{}, Result{}, false,
			func(c *call) (any, error) { return added(c, listeners) }},
		{"GET", "/v1/listeners/{id}", "getListener", "Get a listener", nil, nil, config.Listener{}, false,
			func(c *call) (any, error) { return listeners(c.manager.present()).find(c.path("id")) }},
		{"PATCH", "/v1/listeners/{id}", "setListener", "Change a listener", changeOptions, config.Listener{}, Result{}, true,
			func(c *call) (any, error) {
				return c.patch(func(d *config.Document, p *config.Patch) error { return listeners(d).merge(c.path("id"), p) })
			}},
		{"DELETE", "/v1/listeners/{id}", "removeListener", "Remove a listener, and disconnect the hosts that are connected through it", changeOptions, nil, Result{}, false,
			func(c *call) (any, error) {
				return c.edit(func(d *config.Document) error {
					if err := leaveListener(d, c.path("id")); err != nil {
						return err
					}
					return listeners(d).remove(c.path("id"))
				})
			}},
		{"PUT", "/v1/listeners/{id}/ana-groups", "setANAGroup", "Set the ANA state of a group on a listener", changeOptions, config.ANAGroup{}, Result{}, false,
			func(c *call) (any, error) {
				g := new(config.ANAGroup)
				if err := config.ParsePart("", c.body, g); err != nil {
					return nil, err
				}
				return c.edit(func(d *config.Document) error {
					l, err := listeners(d).find(c.path("id"))
					if err != nil {
						return err
					}
					_ = anaGroups(l).remove(itoa(g.Group)) // it may not exist
					return anaGroups(l).add(g)
				})
			}},
	}
}

// listOf returns list, or an empty list for nil, so that JSON never has null.
func listOf[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// leaveListener removes a listener from the lists of subsystems. It returns an error if it is the only one of a
// list, since an empty list means all.
func leaveListener(d *config.Document, id string) error {
	for _, s := range d.Subsystems {
		var rest []int
		for _, n := range s.Listeners {
			if itoa(n) != id {
				rest = append(rest, n)
			}
		}
		if len(rest) == 0 && len(s.Listeners) > 0 {
			return config.Problems{{Text: fmt.Sprintf("subsystem %s is exposed on listener %s only", s.NQN, id),
				Fix: "first set other listeners for it, or remove it"}}
		}
		s.Listeners = rest
	}
	return nil
}

// addressName returns an address in the form of the document, with its port.
func addressName(s string) string {
	if a, err := nvmeof.ParseListen(s); err == nil {
		return a.String()
	}
	return s
}

// added adds the object in the body to a collection of the document.
func added[T any](c *call, to func(*config.Document) collection[T]) (any, error) {
	x := new(T)
	if err := config.ParsePart("", c.body, x); err != nil {
		return nil, err
	}
	return c.edit(func(d *config.Document) error { return to(d).add(x) })
}

// A pauseBody is the body of a request to pause a namespace.
type pauseBody struct {
	Limit config.Duration `json:"limit,omitzero" doc:"Maximum time of the pause, up to 25s. Default 10s."`
}

func (p pauseBody) limit() time.Duration { return time.Duration(p.Limit) }

// pattern returns the pattern for net/http.
func (r *route) pattern() string { return r.method + " " + r.path }

// parameters returns the variables of the path.
func (r *route) parameters() (names []string) {
	for part := range strings.SplitSeq(r.path, "/") {
		if strings.HasPrefix(part, "{") {
			names = append(names, strings.Trim(part, "{}"))
		}
	}
	return names
}

// encode returns the text of an answer.
func encode(v any) []byte {
	switch v := v.(type) {
	case done:
		return []byte("{}\n")
	case *Measures: // indentation would put each of many numbers on a line of its own
		if text, err := json.Marshal(v); err == nil {
			return append(text, '\n')
		}
	}
	return config.JSON(v)
}
