package statusreport

import (
	"context"
	"fmt"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/failure"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/nvmeverb"
	"github.com/nvmeof-go/nvmeof/nvmeof/host"
)

// adviceTexts says what to do about a rejection whose status alone says too little.
var adviceTexts = map[capsule.Status]string{
	capsule.StatusInvalidOpcode:           "nvmeof effects-log lists the commands that the controller supports.",
	capsule.StatusInvalidLogPage:          "nvmeof supported-log-pages lists those that the controller supports.",
	capsule.StatusReservationConflict:     "Another host has reserved the namespace: nvmeof resv-report shows which; nvmeof resv-acquire --racqa 1 preempts it.",
	capsule.StatusNamespaceWriteProtected: "nvmeof get-feature -f 0x84 shows how the namespace is protected.",
	capsule.StatusANAInaccessible:         "The namespace is inaccessible through this controller: nvmeof ana-log shows the ANA states.",
	capsule.StatusANAPersistentLoss:       "The namespace is no longer accessible through this controller: nvmeof ana-log shows the ANA states.",
}

// General returns the advice that applies to a status in any command.
func General(s capsule.Status) string { return adviceTexts[s.Code()] }

// Advice returns what an administrator may want to know in addition to the text of a status, or "". wanted is the
// namespace of the command, 0 for the lowest.
func Advice(ctx context.Context, c *host.Controller, s capsule.Status, wanted uint32, self string) string {
	switch s.Code() {
	case capsule.StatusInvalidNamespace:
		ids, err := c.Namespaces(ctx)
		if err != nil {
			return ""
		}
		return fmt.Sprintf("The controller shows this host the namespaces %s: choose one with --namespace-id.", failure.List(nvmeverb.Texts(ids)))
	case capsule.StatusLBAOutOfRange:
		return size(ctx, c, wanted)
	case capsule.StatusAccessDenied, capsule.StatusOperationDenied:
		return "The target does not allow this host to do that. This host is " + self + "."
	default:
		return General(s)
	}
}

// size describes how many blocks the wanted namespace has.
func size(ctx context.Context, c *host.Controller, wanted uint32) string {
	id, err := nvmeverb.ChooseNamespace(ctx, c, wanted)
	if err != nil {
		return ""
	}
	ns, err := c.Namespace(ctx, id)
	if err != nil {
		return ""
	}
	return fmt.Sprintf("Namespace %d has %d blocks of %d bytes, numbered from 0.", id, ns.Size()/int64(ns.BlockSize()), ns.BlockSize())
}
