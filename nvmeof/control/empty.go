package control

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/nvmeof-go/nvmeof/backend/file"
	"github.com/nvmeof-go/nvmeof/backend/rbd"
	"github.com/nvmeof-go/nvmeof/nvmeof/config"
)

// emptyOption is the option that says that a namespace begins without data, for those whom others have given its name: a file
// or an image that has some is of somebody who had that name before.
const emptyOption = "empty"

// A NotEmptyError is a file or an image that was to be without data, and has some. It was not exported.
type NotEmptyError struct{ Path config.Path }

func (e *NotEmptyError) Error() string {
	return fmt.Sprintf("%s is there already, and has data, or it is not known whether it has: it may be somebody else's; nothing was changed. Remove it if nobody needs it, or choose another name", e.Path)
}

// refuseData refuses changes that add a namespace whose file or image has data. Called with mu held.
func refuseData(m *Manager, changes []config.Change) error {
	for _, c := range changes {
		n, is := c.New.(*config.Namespace)
		if !is || c.Op != config.Add || n.File == nil && n.RBD == nil {
			continue
		}
		err := m.stores.ask(n.Path(), func() error {
			has, err := hasData(n)
			if err == nil && has {
				err = &NotEmptyError{n.Path()}
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// hasData looks at what a namespace is to export.
func hasData(n *config.Namespace) (bool, error) {
	if n.File != nil {
		return file.HasData(string(n.File.Path))
	}
	s, err := rbd.Open(n.RBD.Image, rbd.Config{Conf: string(n.RBD.Conf), ID: n.RBD.ID, ReadOnly: true})
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	used, err := s.Allocated()
	return used > 0, errors.Join(err, s.Close())
}
