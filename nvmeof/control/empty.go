package control

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/nvmeof-go/nvmeof/backend/file"
	"github.com/nvmeof-go/nvmeof/backend/rbd"
	"github.com/nvmeof-go/nvmeof/nvmeof/config"
)

// emptyOption is the option that requires that an added namespace has no data. It is for clients that do not choose
// the names themselves: an existing file or image with data belongs to an earlier user of the name.
const emptyOption = "empty"

// A NotEmptyError reports a file or an image that has data although the namespace was to be empty. It was not
// exported.
type NotEmptyError struct{ Path config.Path }

func (e *NotEmptyError) Error() string {
	return fmt.Sprintf("%s exists already, and has or may have data that is still needed; nothing was changed. Remove it if it is not needed, or choose another name", e.Path)
}

// refuseData returns an error if changes add a namespace whose file or image has data. The caller holds mu.
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

// hasData reports whether the file or image of a namespace exists and has data.
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
