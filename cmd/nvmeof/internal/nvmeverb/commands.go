package nvmeverb

import (
	"context"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/nvmeof-go/nvmeof/nvmeof/host"
)

// A Connection is how a command gets at its controller.
type Connection interface {
	// AddFlags adds the flags that say which controller is wanted, and how it is reached.
	AddFlags(*cobra.Command)
	// Timeout is how long a command may take, once the flags are parsed.
	Timeout() time.Duration
	// Connected connects to the controller that the flags name, and disconnects after the
	// function. A status with which that ends is explained as nvme-cli does.
	Connected(*cobra.Command, func(context.Context, *host.Controller) error) error
}

// Common are the commands that everybody needs. They share to, since one command at most
// is carried out.
func Common(to Connection) []*cobra.Command {
	return commands(to, newIDCtrl, newIDNS, newRead, newWrite, newFlush)
}

// More are the others.
func More(to Connection) []*cobra.Command {
	return commands(to,
		newSMARTLog, newErrorLog, newANALog, newEffectsLog, newFirmwareLog, newSupportedLogPages,
		newChangedNamespaces, newReservationLog, newFeatureEffects, newMIEffects, newGetLog,
		newListNamespaces, newListControllers, newDescriptors, newNVMNamespace, newIndependentNamespace, newNVMController,
		newGetFeature, newSetFeature, newShowRegisters, newGetProperty, newSetProperty,
		newDSM, newWriteZeroes, newVerify, newCompare, newCopy,
		newReservationRegister, newReservationAcquire, newReservationRelease, newReservationReport,
		newAdminPassthru, newIOPassthru)
}

func commands(to Connection, all ...func(Connection) *cobra.Command) (list []*cobra.Command) {
	shared := sharedFlags{Connection: to}
	to.AddFlags(&shared.cmd)
	for _, create := range all {
		list = append(list, create(&shared))
	}
	return list
}

// sharedFlags is a connection whose flags are made once for all commands: a command line
// waits for the flags of all.
type sharedFlags struct {
	Connection
	cmd cobra.Command // has the flags, and the function that reads them
}

// AddFlags adds copies: a command may take the letter of one for a flag of its own.
func (s *sharedFlags) AddFlags(cmd *cobra.Command) {
	cmd.PreRunE = s.cmd.PreRunE
	s.cmd.Flags().VisitAll(func(f *pflag.Flag) {
		flag := *f
		cmd.Flags().AddFlag(&flag)
	})
}
