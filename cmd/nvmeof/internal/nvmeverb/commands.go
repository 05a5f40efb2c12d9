package nvmeverb

import (
	"context"
	"time"

	"github.com/spf13/cobra"

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

// Common are the commands that everybody needs, each with a connection of its own.
func Common(connect func() Connection) []*cobra.Command {
	return commands(connect, newIDCtrl, newIDNS, newRead, newWrite, newFlush)
}

// More are the others.
func More(connect func() Connection) []*cobra.Command {
	return commands(connect,
		newSMARTLog, newErrorLog, newANALog, newEffectsLog, newFirmwareLog, newSupportedLogPages,
		newChangedNamespaces, newReservationLog, newFeatureEffects, newMIEffects, newGetLog,
		newListNamespaces, newListControllers, newDescriptors, newNVMNamespace, newIndependentNamespace, newNVMController,
		newGetFeature, newSetFeature, newShowRegisters, newGetProperty, newSetProperty,
		newDSM, newWriteZeroes, newVerify, newCompare, newCopy,
		newReservationRegister, newReservationAcquire, newReservationRelease, newReservationReport,
		newAdminPassthru, newIOPassthru)
}

func commands(connect func() Connection, all ...func(Connection) *cobra.Command) (list []*cobra.Command) {
	for _, create := range all {
		list = append(list, create(connect()))
	}
	return list
}
