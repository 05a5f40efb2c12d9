package control

import (
	"slices"
	"strings"

	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/config"
)

func subsystemRoutes() []route {
	return append([]route{
		{"GET", "/v1/subsystems", "listSubsystems", "List the subsystems", nil, nil, []*config.Subsystem{}, false,
			func(c *call) (any, error) { return listOf(c.manager.present().Subsystems), nil }},
		{"POST", "/v1/subsystems", "addSubsystem", "Add a subsystem", changeOptions, config.Subsystem{}, Result{}, false,
			func(c *call) (any, error) { return added(c, subsystems) }},
		{"GET", "/v1/subsystems/{nqn}", "getSubsystem", "Get a subsystem", nil, nil, config.Subsystem{}, false,
			func(c *call) (any, error) { return c.subsystem(c.manager.present()) }},
		{"PATCH", "/v1/subsystems/{nqn}", "setSubsystem", "Change a subsystem", changeOptions, config.Subsystem{}, Result{}, true,
			func(c *call) (any, error) {
				return c.patch(func(d *config.Document, p *config.Patch) error { return subsystems(d).merge(c.path("nqn"), p) })
			}},
		{"DELETE", "/v1/subsystems/{nqn}", "removeSubsystem", "Remove a subsystem, and disconnect its hosts", changeOptions, nil, Result{}, false,
			func(c *call) (any, error) {
				return c.edit(func(d *config.Document) error { return subsystems(d).remove(c.path("nqn")) })
			}},
		{"POST", "/v1/subsystems/{nqn}/namespaces/{nsid}/pause", "pauseNamespace", "Pause a namespace: its commands wait", nil, pauseBody{}, done{}, true,
			func(c *call) (any, error) {
				var p pauseBody
				if err := config.Merge("", c.body, &p); err != nil {
					return nil, err
				}
				nsid, err := c.number("nsid")
				if err != nil {
					return nil, err
				}
				return done{}, c.manager.Pause(nvmeof.NQN(c.path("nqn")), nsid, p.limit())
			}},
		{"POST", "/v1/subsystems/{nqn}/namespaces/{nsid}/resume", "resumeNamespace", "End a pause: commands are executed again", nil, nil, done{}, false,
			func(c *call) (any, error) {
				nsid, err := c.number("nsid")
				if err != nil {
					return nil, err
				}
				return done{}, c.manager.Resume(nvmeof.NQN(c.path("nqn")), nsid)
			}},
		{"POST", "/v1/subsystems/{nqn}/namespaces/{nsid}/clear-fault", "clearFault", "Make a namespace whose file or device has failed accept writes again: writes that were acknowledged but not flushed before may be lost. Or accept the size of a file that was truncated, or the holes of one that was truncated and extended", nil, nil, done{}, false,
			func(c *call) (any, error) {
				nsid, err := c.number("nsid")
				if err != nil {
					return nil, err
				}
				return done{}, c.manager.ClearFault(nvmeof.NQN(c.path("nqn")), nsid)
			}},
	}, append(memberRoutes("hosts", "Host", "host", hosts), memberRoutes("namespaces", "Namespace", "nsid", namespaces)...)...)
}

// memberRoutes returns the routes for a list of a subsystem.
func memberRoutes[T any](list, name, key string, of func(*config.Subsystem) collection[T]) []route {
	var zero T
	edit := func(c *call, change func(collection[T]) error) (any, error) {
		return c.edit(func(d *config.Document) error {
			s, err := c.subsystem(d)
			if err != nil {
				return err
			}
			return change(of(s))
		})
	}
	base := "/v1/subsystems/{nqn}/" + list
	options, adding := changeOptions, changeOptions
	if key == "nsid" {
		options, adding = namespaceOptions, append(slices.Clone(changeOptions), emptyOption)
	}
	return []route{
		{"GET", base, "list" + name + "s", "List the " + list + " of a subsystem", nil, nil, []*T{}, false,
			func(c *call) (any, error) {
				s, err := c.subsystem(c.manager.present())
				if err != nil {
					return nil, err
				}
				return listOf(*of(s).list), nil
			}},
		{"POST", base, "add" + name, "Add a " + strings.ToLower(name) + " to a subsystem", adding, zero, Result{}, false,
			func(c *call) (any, error) {
				x := new(T)
				if err := config.ParsePart("", c.body, x); err != nil {
					return nil, err
				}
				return edit(c, func(l collection[T]) error { return l.add(x) })
			}},
		{"GET", base + "/{" + key + "}", "get" + name, "Get a " + strings.ToLower(name) + " of a subsystem", nil, nil, zero, false,
			func(c *call) (any, error) {
				s, err := c.subsystem(c.manager.present())
				if err != nil {
					return nil, err
				}
				return of(s).find(c.path(key))
			}},
		{"PATCH", base + "/{" + key + "}", "set" + name, "Change a " + strings.ToLower(name) + " of a subsystem", options, zero, Result{}, true,
			func(c *call) (any, error) {
				answer, err := c.patch(func(d *config.Document, p *config.Patch) error {
					s, err := c.subsystem(d)
					if err != nil {
						return err
					}
					return of(s).merge(c.path(key), p)
				})
				if err == nil && key == "nsid" {
					answer = c.warnReadOnly(answer)
				}
				return answer, err
			}},
		{"DELETE", base + "/{" + key + "}", "remove" + name, "Remove a " + strings.ToLower(name) + " from a subsystem", options, nil, Result{}, false,
			func(c *call) (any, error) {
				return edit(c, func(l collection[T]) error { return l.remove(c.path(key)) })
			}},
	}
}
