package main

import (
	"github.com/spf13/cobra"

	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/fabricaccess"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/hostidentity"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/nvmeverb"
)

// addNVMeCommands adds nvme-cli's commands on one controller that have no file of their own. Help lists them after
// those added before.
func addNVMeCommands(root *cobra.Command) {
	const others, group = "others", "nvme"
	root.AddGroup(&cobra.Group{ID: others, Title: "Commands:"}, &cobra.Group{ID: group, Title: "More of nvme-cli's commands, on one controller:"})
	for _, c := range root.Commands() {
		c.GroupID = others
	}
	all := append(nvmeverb.More(fabricaccess.NewVerbConnection()), hostidentity.GenHostNQN(), hostidentity.ShowHostNQN(), hostidentity.CheckDHCHAPKey())
	for _, c := range all {
		c.GroupID = group
		root.AddCommand(c)
	}
}
