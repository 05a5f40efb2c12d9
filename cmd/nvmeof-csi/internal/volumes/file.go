package volumes

import (
	"bytes"

	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/config"
)

// A file is the configuration file of a driver, in the form of the target's own configuration: values of other types
// are rejected where text is expected, rather than converted.
type file struct {
	Targets []*entry `json:"targets"`
}

// An entry is a [TargetConfig].
type entry struct {
	Name      string      `json:"name" need:"yes" doc:"Short name of the target, for good."`
	Control   string      `json:"control" need:"yes" doc:"unix:PATH, or https://HOST:PORT of its console."`
	TokenFile config.Path `json:"token-file"`
	CAFile    config.Path `json:"ca-file"`
	Subsystem nvmeof.NQN  `json:"subsystem" need:"yes" doc:"NQN of the subsystem whose namespaces volumes are."`
	Directory config.Path `json:"directory"`
	Thick     bool        `json:"thick"`
	Pool      string      `json:"pool"`
	CephConf  config.Path `json:"ceph-conf"`
	CephID    string      `json:"ceph-id"`
	Addresses []string    `json:"addresses"`
}

// parse parses the text of a file, YAML or JSON.
func parse(name string, text []byte) (c Config, err error) {
	var f file
	if len(bytes.TrimSpace(bytes.TrimPrefix(text, []byte("\ufeff")))) == 0 {
		return c, nil // without a target, which the caller reports
	}
	if err := config.ParsePart(name, text, &f); err != nil {
		return c, err
	}
	for _, e := range f.Targets {
		c.Targets = append(c.Targets, TargetConfig{Name: e.Name, Control: e.Control, TokenFile: string(e.TokenFile), CAFile: string(e.CAFile), Subsystem: string(e.Subsystem),
			Directory: string(e.Directory), Thick: e.Thick, Pool: e.Pool, CephConf: string(e.CephConf), CephID: e.CephID, Addresses: e.Addresses})
	}
	return c, nil
}
