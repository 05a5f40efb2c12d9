package control

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/config"
)

// A StepError reports a change that failed and was undone.
type StepError struct {
	Step config.Change
	Err  error
	Undo error // what could not be undone; nil: everything is as before

	advice string
}

func (e *StepError) Error() string {
	text := fmt.Sprintf("%v: %v%s", e.Step, e.Err, e.advice)
	if e.Undo != nil {
		return text + "; and not all earlier steps could be undone: " + e.Undo.Error()
	}
	return text + "; everything is as it was before"
}

func (e *StepError) Unwrap() error { return e.Err }

// A SaveError reports a file that was not written.
type SaveError struct {
	File    string
	Err     error
	Changed bool // the target was changed
}

func (e *SaveError) Error() string {
	text := e.Err.Error()
	if e.File != "" && !strings.Contains(text, e.File) {
		text = e.File + ": " + text
	}
	if e.Changed {
		return "the target was changed, but the change was not saved: " + text
	}
	return text + "; nothing was changed"
}

func (e *SaveError) Unwrap() error { return e.Err }

// A RestartError reports a change of a setting that a running target cannot change.
type RestartError struct{ Change config.Change }

func (e *RestartError) Error() string {
	return fmt.Sprintf("%v: cannot be changed while the target runs; nothing was changed. Change the file, and restart the target", e.Change)
}

// A LossError reports a change that would destroy data, and was not made.
type LossError struct{ Steps []config.Change }

// losses returns the changes that destroy data.
func losses(changes []config.Change) (lost []config.Change) {
	for _, c := range changes {
		if c.Loses {
			lost = append(lost, c)
		}
	}
	return lost
}

func (e *LossError) Error() string {
	text := e.Steps[0].String()
	if n := len(e.Steps) - 1; n > 0 {
		text += fmt.Sprintf(", and that of %d others", n)
	}
	return text + "; nothing was changed. If this is intended, use --force (with the API ?force=true)"
}

// A NotFoundError reports an object that does not exist.
type NotFoundError struct {
	Kind, Name string
	There      []string // names that exist
}

func (e *NotFoundError) Error() string {
	text := fmt.Sprintf("%s %s does not exist", e.Kind, nvmeof.Printable(e.Name))
	_, notNumber := strconv.Atoi(e.Name) // a similar number means nothing
	switch near := nvmeof.Nearest(e.Name, e.There); {
	case near != "" && notNumber != nil:
		return text + "; did you mean " + near + "?"
	case len(e.There) == 0:
		return text + "; there is none"
	case len(e.There) <= 10:
		return text + "; there is " + strings.Join(e.There, ", ")
	}
	return text
}

// An ExistsError reports an object that exists already.
type ExistsError struct{ Kind, Name string }

func (e *ExistsError) Error() string {
	return fmt.Sprintf("%s %s exists already; change it with set", e.Kind, nvmeof.Printable(e.Name))
}

// An unreadError reports key files that cannot be read. Their hosts keep the previous keys.
type unreadError struct {
	read int // number of hosts whose keys were read
	err  error
}

func (e *unreadError) Error() string {
	text := strings.ReplaceAll(e.err.Error(), "\n", "; ")
	if e.read == 0 {
		return "no key was read again, and the previous keys are kept: " + text
	}
	return fmt.Sprintf("keys of %d hosts were read; these could not be read, and their previous keys are kept: %s", e.read, text)
}

func (e *unreadError) Unwrap() error { return e.err }

// ErrClosed reports that the target is stopping, or continues in another process, and that nothing was changed.
var ErrClosed = errors.New("the target is stopping")

// A handedError is the ErrClosed of a target that continues in another process, which will serve the socket soon.
type handedError struct{}

func (handedError) Error() string {
	return "the target is being handed over to another process, and nothing was changed: try again"
}

func (handedError) Unwrap() error { return ErrClosed }

// explained returns the error that a caller gets for err.
func explained(m *Manager, err error) error {
	if errors.Is(err, ErrClosed) && m.handed.Load() {
		return handedError{}
	}
	return err
}
