package nvmeverb

import (
	"context"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/nvmeof-go/nvmeof/nvmeof/host"
)

// A Connection reaches the controller of a command.
type Connection interface {
	// AddFlags adds the flags that select the controller, and how it is reached.
	AddFlags(*cobra.Command)
	// Timeout returns how long a command may take. It is valid once the flags are parsed.
	Timeout() time.Duration
	// Connected connects to the controller that the flags select, calls the function, and disconnects. If the function
	// fails with a status, the error explains it as nvme-cli does.
	Connected(*cobra.Command, func(context.Context, *host.Controller) error) error
}

// Common returns the commonly used commands. They share to, since at most one command is executed.
func Common(to Connection) []*cobra.Command {
	return commands(to, newIDCtrl, newIDNS, newRead, newWrite, newFlush)
}

// More returns the other commands.
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

// sharedFlags is a connection whose flags are created once for all commands, since creating them for each command
// would slow down every start.
type sharedFlags struct {
	Connection
	cmd cobra.Command // has the flags, and the function that parses them
}

// AddFlags adds copies of the flags, because a command may use the shorthand of one for a flag of its own.
func (s *sharedFlags) AddFlags(cmd *cobra.Command) {
	cmd.PreRunE = s.cmd.PreRunE
	s.cmd.Flags().VisitAll(func(f *pflag.Flag) {
		flag := *f
		cmd.Flags().AddFlag(&flag)
	})
}
