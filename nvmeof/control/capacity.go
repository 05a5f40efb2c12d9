package control

import (
	"slices"

	"golang.org/x/sys/unix"

	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/config"
)

// pathOption is the option whose value is the path of a folder.
const pathOption = "path"

// withdrawnOption is the option that requires that no named host may use the namespace. A client has checked that,
// but another one may have granted the namespace since.
const withdrawnOption = "withdrawn"

// expectsWithdrawn returns an error if the option is given and a named host may use the namespace in the path.
func (c *call) expectsWithdrawn(d *config.Document, nsid int) error {
	if !c.option(withdrawnOption) {
		return nil
	}
	s, err := c.subsystem(d)
	if err != nil {
		return err
	}
	if names := Granted(s, nsid); len(names) > 0 {
		return &GrantedError{s.NQN, nsid, names}
	}
	return nil
}

// A Capacity is the space of a file system, in bytes. Space that thin files may still allocate counts as free.
type Capacity struct {
	Path string `json:"path"`
	Size int64  `json:"size"`
	Free int64  `json:"free"` // for users other than root
}

// storageRoutes returns the routes for what namespaces export.
func storageRoutes() []route {
	return []route{
		{"POST", "/v1/subsystems/{nqn}/namespaces/{nsid}/erase", "eraseNamespace", "Remove a namespace, and delete the file, Ceph image or memory that it exports. A file or image must have a size in the configuration: then the target created it. In a group, the gateway that serves the namespace does that, even if the gateway that received the request ends or responds with an error; repeat the request to wait again. If a connected host may use the namespace, force is required (in-use)", append(slices.Clone(namespaceOptions), withdrawnOption), nil, Result{}, false,
			func(c *call) (any, error) {
				nsid, err := c.number("nsid")
				if err != nil {
					return nil, err
				}
				o := c.options()
				check := func(d *config.Document) error {
					if err := c.expects(d); err != nil {
						return err
					}
					return c.expectsWithdrawn(d, nsid)
				}
				return c.result(o)(erase(c.manager, c.who, check, nvmeof.NQN(c.path("nqn")), nsid, o))
			}},
		{"GET", "/v1/capacity", "getCapacity", "Get the free space in the file system of a directory, for files of new namespaces", []string{pathOption}, nil, Capacity{}, false,
			func(c *call) (any, error) {
				path := config.Path(c.query.Get(pathOption))
				if path == "" {
					return nil, config.Problems{{Text: "option path is missing", Fix: "give the absolute path of a directory"}}
				}
				if !within(c.manager.present().Sandbox.Paths, string(path)) {
					if err := c.who.may(RoleAdmin, nvmeof.Printable(string(path))+" is in no directory of sandbox.paths in the configuration: reading its capacity"); err != nil {
						return nil, err
					}
				}
				return capacityOf(c.manager, path)
			}},
	}
}

// unitOf returns the unit in which a file system counts its blocks. Bsize is the best size of transfers, which differs in
// some file systems (FUSE).
func unitOf(s *unix.Statfs_t) int64 {
	if s.Frsize > 0 {
		return int64(s.Frsize)
	}
	return int64(s.Bsize)
}

// capacityOf asks the file system, which may hang.
func capacityOf(m *Manager, path config.Path) (Capacity, error) {
	r := &m.stores.reacher
	return reachFor(r, r.timeOf(changeTimeout), path, func() (Capacity, error) {
		var s unix.Statfs_t
		if err := unix.Statfs(string(path), &s); err != nil {
			return Capacity{}, config.Problems{{Text: nvmeof.Printable(string(path)) + ": " + err.Error(), Fix: "name a directory of the target's machine"}}
		}
		return Capacity{Path: string(path), Size: int64(s.Blocks) * unitOf(&s), Free: int64(s.Bavail) * unitOf(&s)}, nil
	}, nil)
}
