package hostconfig

import (
	"github.com/nvmeof-go/nvmeof/nvmeof"
)

// ParseJSON parses a config.json of nvme-cli 2 (libnvme's config-schema.json): a list of hosts, or an object with such
// a list as "hosts".
func ParseJSON(file string, text []byte) Result {
	d := document{file: file}
	if !d.result.isText(file, text) {
		return d.result
	}
	root, line, err := parseTree(text)
	if err != nil {
		d.result.problem(file, line, "", "%v", err)
		return d.result
	}
	if root.kind == objectValue {
		hosts := root.member("hosts")
		if hosts == nil {
			d.result.problem(file, root.line, "write {\"hosts\": [...]}", "hosts is missing")
			return d.result
		}
		d.known(root, "hosts", "owner")
		root = hosts
	}
	d.each(root, "hosts", func(v *value) { d.host(v) })
	return d.result
}

// A document is a config.json being parsed.
type document struct {
	file   string
	result Result
}

// each calls f for each object of a list.
func (d *document) each(list *value, name string, f func(*value)) {
	if list == nil {
		return
	}
	if list.kind != listValue {
		d.result.problem(d.file, list.line, "write [ ... ]", "%s is not a list", name)
		return
	}
	for _, v := range list.items {
		if v.kind != objectValue {
			d.result.problem(d.file, v.line, "write { ... }", "an element of %s is not an object", name)
			continue
		}
		f(v)
	}
}

// known warns of unknown members.
func (d *document) known(v *value, names ...string) {
	for _, m := range v.members {
		found := false
		for _, n := range names {
			found = found || m.name == n
		}
		if !found {
			d.result.warn(d.file, m.value.line, didYouMean(m.name, names), "%s is ignored", nvmeof.Printable(m.name))
		}
	}
}

func (d *document) host(v *value) {
	d.known(v, "hostnqn", "hostid", "dhchap_key", "hostsymname", "persistent_discovery_ctrl", "subsystems")
	common := Options{}
	ok := true
	for _, f := range []struct{ member, option string }{
		{"hostnqn", "hostnqn"}, {"hostid", "hostid"}, {"dhchap_key", "dhchap-secret"}, {"persistent_discovery_ctrl", "persistent"},
	} {
		ok = d.take(common, v.member(f.member), find(f.option)) && ok
	}
	if !ok { // otherwise its subsystems would be connected as another host
		return
	}
	d.each(v.member("subsystems"), "subsystems", func(s *value) { d.subsystem(s, common) })
}

func (d *document) subsystem(v *value, common Options) {
	d.known(v, "nqn", "application", "persistent_discovery_ctrl", "ports")
	o := clone(common)
	nqn := v.member("nqn")
	if nqn == nil {
		d.result.problem(d.file, v.line, "", "nqn of the subsystem is missing")
		return
	}
	if !d.take(o, nqn, find("nqn")) || !d.take(o, v.member("persistent_discovery_ctrl"), find("persistent")) {
		return
	}
	d.each(v.member("ports"), "ports", func(p *value) { d.port(p, o) })
}

func (d *document) port(v *value, common Options) {
	e := Entry{File: d.file, Line: v.line, Options: clone(common)}
	e.Discovery = e.Options["nqn"] == string(nvmeof.DiscoveryNQN)
	for _, m := range v.members {
		if m.name == "discovery" {
			on, _ := parseBool(m.value.text)
			e.Discovery = e.Discovery || on
			continue
		}
		o := findJSON(m.name)
		if o == nil {
			all := append(names(func(o *Option) string { return o.JSON }), "discovery")
			d.result.warn(d.file, m.value.line, didYouMean(m.name, all), "%s is ignored", nvmeof.Printable(m.name))
			continue
		}
		if !d.take(e.Options, m.value, o) {
			return
		}
	}
	d.result.enter(e)
}

// take sets an option from a member. A missing or null member changes nothing.
func (d *document) take(to Options, v *value, o *Option) bool {
	if v == nil || v.kind == nullValue {
		return true
	}
	if v.kind == listValue || v.kind == objectValue {
		d.result.problem(d.file, v.line, "", "%s is a list or an object: want a single value", o.Name)
		return false
	}
	if o.Secret && v.text == "none" { // written by libnvme if there is no key
		return true
	}
	text, err := o.check(v.text)
	if err != nil {
		d.result.problem(d.file, v.line, "", "%v", err)
		return false
	}
	to[o.Name] = text
	return true
}

func clone(o Options) Options {
	c := make(Options, len(o)+8)
	for name, v := range o {
		c[name] = v
	}
	return c
}
