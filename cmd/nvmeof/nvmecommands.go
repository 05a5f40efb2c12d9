package main

import "github.com/spf13/cobra"

// addNVMeCommands adds nvme-cli's commands on one controller, beside those that have
// files of their own. Help lists them after all that were added before.
func addNVMeCommands(root *cobra.Command) {
	const others, group = "others", "nvme"
	root.AddGroup(&cobra.Group{ID: others, Title: "Commands:"}, &cobra.Group{ID: group, Title: "More of nvme-cli's commands, on one controller:"})
	for _, c := range root.Commands() {
		c.GroupID = others
	}
	for _, c := range []*cobra.Command{
		newSMARTLog(), newErrorLog(), newANALog(), newEffectsLog(), newFirmwareLog(), newSupportedLogPages(),
		newChangedNamespaces(), newReservationLog(), newFeatureEffects(), newMIEffects(), newGetLog(),
		newListNamespaces(), newListControllers(), newDescriptors(), newNVMNamespace(), newIndependentNamespace(), newNVMController(),
		newGetFeature(), newSetFeature(), newShowRegisters(), newGetProperty(), newSetProperty(),
		newDSM(), newWriteZeroes(), newVerify(), newCompare(), newCopy(),
		newReservationRegister(), newReservationAcquire(), newReservationRelease(), newReservationReport(),
		newAdminPassthru(), newIOPassthru(), newGenHostNQN(), newShowHostNQN(), newCheckDHCHAPKey(),
	} {
		c.GroupID = group
		root.AddCommand(c)
	}
}
