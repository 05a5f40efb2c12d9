package volumes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"path"
	"regexp"
	"slices"

	"github.com/google/uuid"

	"github.com/nvmeof-go/nvmeof/nvmeof/config"
	"github.com/nvmeof-go/nvmeof/nvmeof/control"
)

// A Request describes a wanted volume. Zero fields take the values of the target, or the defaults.
type Request struct {
	Name      string
	Target    string // default: the first
	Kind      Kind   // default: File, or RBD on a target with a pool and no directory
	Pool      string
	Directory string
	Thick     bool
	BlockSize int
	Required  int64 // minimum in bytes; default 1 GiB
	Limit     int64 // maximum in bytes; 0: no maximum
}

const (
	defaultSize = 1 << 30
	sizeUnit    = 1 << 20 // a multiple of all block sizes, including those of file systems
)

var (
	// ErrDiffers is returned if the volume with the name differs from the wanted one.
	ErrDiffers = errors.New("a volume with that name exists, with other properties")
	// ErrSize is returned if no size satisfies a request.
	ErrSize = errors.New("no multiple of 1 MiB is at least the required size and at most the limit")
	// ErrRequest is returned for an invalid request.
	ErrRequest = errors.New("check the storage class and the driver's configuration")
	// ErrFull is returned if a target cannot have another volume.
	ErrFull = errors.New("the subsystem has the maximum number of namespaces")
)

// sizeFor returns the size of a volume.
func sizeFor(required, limit int64) (int64, error) {
	if required == 0 {
		if required = defaultSize; limit > 0 {
			required = min(required, limit/sizeUnit*sizeUnit)
		}
	}
	if required <= 0 || required > math.MaxInt64-sizeUnit {
		return 0, ErrSize
	}
	size := (required + sizeUnit - 1) / sizeUnit * sizeUnit
	if limit > 0 && size > limit {
		return 0, ErrSize
	}
	return size, nil
}

// space is the name space of the UUIDs of volumes.
var space = uuid.MustParse("4f3f6c1e-3f0b-5d0e-9f0e-6f2f6e766d65")

func (t *target) uuidOf(name string) uuid.UUID {
	return uuid.NewSHA1(space, []byte(string(t.nqn)+"\x00"+name))
}

// plain matches names that can be used as file names.
var plain = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$`)

// attempts is how many NSIDs are tried if others take them concurrently.
const attempts = 8

// Create creates a volume, or finds the one with that name.
func (s *Set) Create(ctx context.Context, r Request) (*Volume, error) {
	t := s.targets[0]
	if r.Target != "" {
		if t = s.named(r.Target); t == nil {
			return nil, fmt.Errorf("target %q is not in the driver's configuration: %w", r.Target, ErrRequest)
		}
	}
	size, err := sizeFor(r.Required, r.Limit)
	if err != nil {
		return nil, err
	}
	var last error
	var refused []int // NSIDs tried; a group of gateways may still be erasing the namespace that had one
	for range attempts {
		v, sub, err := t.find(ctx, t.uuidOf(r.Name))
		switch {
		case err == nil:
			return v, t.same(ctx, v, r)
		case !errors.Is(err, ErrNotFound):
			return nil, err
		case last != nil && !isCode(last, control.CodeExists):
			return nil, last
		}
		n, err := t.namespace(sub, r, size, refused)
		if err != nil {
			return nil, err
		}
		refused = append(refused, n.NSID)
		if last = t.add(ctx, n); last != nil && ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
	}
	if last != nil {
		return nil, last
	}
	v, _, err := t.find(ctx, t.uuidOf(r.Name)) // created by the last attempt
	return v, err
}

// same returns nil if a volume satisfies the request. It also saves the document, since the call that created the
// volume may have been killed before that.
func (t *target) same(ctx context.Context, v *Volume, r Request) error {
	if v.Size < r.Required || r.Limit > 0 && v.Size > r.Limit || r.Kind != "" && v.Kind != r.Kind {
		return fmt.Errorf("%s: volume %s has %d bytes and storage %s: %w", r.Name, v.ID, v.Size, v.Kind, ErrDiffers)
	}
	return t.client.Do(ctx, "PATCH", v.of(), v.options(), []byte("{}"), nil)
}

// namespace returns the namespace to add, with an NSID that is not among refused.
func (t *target) namespace(s *config.Subsystem, r Request, size int64, refused []int) (*config.Namespace, error) {
	u := t.uuidOf(r.Name)
	n := &config.Namespace{NSID: free(s, refused), UUID: config.UUID(u), BlockSize: r.BlockSize}
	if n.NSID == 0 {
		return nil, fmt.Errorf("%s of target %s: %w", t.nqn, t.Name, ErrFull)
	}
	name := u.String()
	if plain.MatchString(r.Name) {
		name = r.Name
	}
	kind, place := t.place(r)
	switch {
	case kind == Memory:
		n.Memory = &config.Memory{Size: config.Size(size)}
		return n, nil
	case place == "":
		return nil, fmt.Errorf("target %s: neither the driver's configuration nor the storage class has a directory or pool for storage %s: %w", t.Name, kind, ErrRequest)
	case kind == RBD:
		n.RBD = &config.RBD{Image: place + "/" + name, Size: config.Size(size), Conf: config.Path(t.CephConf), ID: t.CephID}
		return n, nil
	}
	n.File = &config.File{Path: config.Path(path.Join(place, name+".img")), Size: config.Size(size), Thin: !(t.Thick || r.Thick)}
	return n, nil
}

// place returns the kind of a volume's store, and its directory or pool.
func (t *target) place(r Request) (Kind, string) {
	directory, pool := cmp.Or(r.Directory, t.Directory), cmp.Or(r.Pool, t.Pool)
	kind := r.Kind
	if kind == "" {
		if kind = File; r.Pool != "" || directory == "" && pool != "" {
			kind = RBD
		}
	}
	if kind == RBD {
		return kind, pool
	}
	return kind, directory
}

const maxNSID = 4096

// free returns an NSID that no namespace has, that no host has a right to, and that is not among refused; 0 if there
// is none.
func free(s *config.Subsystem, refused []int) int {
	var taken [maxNSID + 1]bool
	take := func(id int) {
		if id >= 1 && id <= maxNSID {
			taken[id] = true
		}
	}
	for _, id := range refused {
		take(id)
	}
	for _, n := range s.Namespaces {
		take(n.NSID)
	}
	for _, h := range s.Hosts {
		for _, r := range h.Namespaces {
			if r.Access != "none" {
				take(r.NSID)
			}
		}
	}
	return slices.Index(taken[1:], false) + 1
}

// add adds a namespace without data, and creates the subsystem if it is missing. The subsystem rejects duplicates: two
// machines with the same identity cannot be connected through the same listener at the same time.
func (t *target) add(ctx context.Context, n *config.Namespace) error {
	add := func() error {
		return t.client.Do(ctx, "POST", control.Path("subsystems", string(t.nqn), "namespaces"), []string{"save", "empty"}, config.JSON(n), nil)
	}
	err := add()
	if !isCode(err, control.CodeNotFound) {
		return err
	}
	err = t.client.Do(ctx, "POST", control.Path("subsystems"), []string{"save"}, config.JSON(&config.Subsystem{NQN: t.nqn, RefuseDuplicates: true}), nil)
	if err != nil && !isCode(err, control.CodeExists) {
		return fmt.Errorf("create subsystem %s at target %s: %w", t.nqn, t.Name, err)
	}
	return add()
}
