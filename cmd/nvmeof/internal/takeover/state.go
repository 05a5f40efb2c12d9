package takeover

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"

	"github.com/nvmeof-go/nvmeof/backend/memory"
	"github.com/nvmeof-go/nvmeof/nvmeof/config"
	"github.com/nvmeof-go/nvmeof/nvmeof/control"
	"github.com/nvmeof-go/nvmeof/nvmeof/target"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

// Format is the version of the protocol and its state. Processes with different formats cannot take each other over.
const Format = 3

// A Hello describes the running process.
type Hello struct {
	Format   int    `json:"format"`
	Version  string `json:"version"` // of the program
	PID      int    `json:"pid"`
	Replaced bool   `json:"replaced"`         // the program's file was replaced since the process was started
	Notify   string `json:"notify,omitempty"` // NOTIFY_SOCKET of systemd
}

// state is a target without its descriptors.
type state struct {
	Document json.RawMessage   `json:"document"`
	Saved    json.RawMessage   `json:"saved"`
	Target   []byte            `json:"target"`
	Devices  []device          `json:"devices"`
	Memory   *pool             `json:"memory"`           // its descriptor follows those of the devices; nil: none
	Failed   map[string]string `json:"failed,omitempty"` // why stores reject writes, by name
	Files    []string          `json:"files"`            // names; their descriptors follow that of memory
}

// A pool describes a [memory.Pool].
type pool struct {
	End    int64            `json:"end"`
	Stores map[string]int64 `json:"stores"` // offsets, by name
}

type device struct {
	Name  string `json:"name"`
	State []byte `json:"state"`
	Files int    `json:"files"`
}

// sendState sends a target.
func (c *Conn) sendState(x *control.Moved) error {
	s := state{Files: slices.Sorted(maps.Keys(x.Files))}
	s.Failed = x.Failed
	s.Document, s.Saved = config.JSON(x.Document), config.JSON(x.Saved)
	var err error
	if s.Target, err = x.Target.MarshalBinary(); err != nil {
		return err
	}
	var files []*os.File
	for _, d := range x.Target.Devices {
		s.Devices = append(s.Devices, device{d.Name, d.Moved.State, len(d.Moved.Files)})
		files = append(files, d.Moved.Files...)
	}
	if x.Memory != nil {
		f, end := x.Memory.File()
		s.Memory = &pool{end, x.Offsets}
		files = append(files, f)
	}
	for _, name := range s.Files {
		files = append(files, x.Files[name])
	}
	body, err := json.Marshal(&s)
	if err != nil {
		return err
	}
	return errors.Join(c.send(kindState, body), c.sendFiles(files))
}

// parseState parses a state and receives the descriptors that follow it.
func (c *Conn) parseState(body []byte) (*control.Moved, error) {
	var s state
	if err := json.Unmarshal(body, &s); err != nil {
		return nil, fmt.Errorf("its state: %w", err)
	}
	x := &control.Moved{Target: new(target.Moved), Failed: s.Failed, Files: map[string]*os.File{}}
	var err, other error
	x.Document, _, err = config.Parse("", s.Document)
	x.Saved, _, other = config.Parse("", s.Saved)
	if err = errors.Join(err, other, x.Target.UnmarshalBinary(s.Target)); err != nil {
		return nil, err
	}
	n := len(s.Files)
	if s.Memory != nil {
		n++
	}
	for _, d := range s.Devices {
		if d.Files < 0 || d.Files > maxDescriptors {
			return nil, fmt.Errorf("device %s with %d descriptors", d.Name, d.Files)
		}
		n += d.Files
	}
	if n > maxDescriptors {
		return nil, fmt.Errorf("%d descriptors, at most %d", n, maxDescriptors)
	}
	files, err := c.receiveFiles(n)
	if err != nil {
		return nil, err
	}
	for _, d := range s.Devices {
		x.Target.Devices = append(x.Target.Devices, target.MovedDevice{Name: d.Name, Moved: &rdmatransport.Moved{State: d.State, Files: files[:d.Files:d.Files]}})
		files = files[d.Files:]
	}
	if s.Memory != nil {
		f := files[0]
		files = files[1:]
		x.Offsets = s.Memory.Stores
		if x.Memory, err = memory.OpenPool(f, s.Memory.End); err != nil {
			return nil, err
		}
		if err := f.Close(); err != nil {
			return nil, err
		}
	}
	for i, name := range s.Files {
		x.Files[name] = files[i]
	}
	return x, nil
}

// maxDescriptors limits the number of descriptors of a target.
const maxDescriptors = 1 << 16
