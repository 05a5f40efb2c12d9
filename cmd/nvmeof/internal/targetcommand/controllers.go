package targetcommand

import "github.com/nvmeof-go/nvmeof/nvmeof/target"

const controllersHelp = "FIRST..LAST: range of controller identifiers in all subsystems, within 1 to 65519; targets that serve the same subsystems need disjoint ranges (default: all)"

// A controllerRange is the value of --controller-ids. It is not part of the document, which several targets may share.
type controllerRange struct{ target.ControllerRange }

// Set implements [pflag.Value].
func (r *controllerRange) Set(text string) (err error) {
	next, err := target.ParseControllerRange(text)
	if err == nil {
		r.ControllerRange = next
	}
	return err
}

// Type implements [pflag.Value].
func (*controllerRange) Type() string { return "range" }
