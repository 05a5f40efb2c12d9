package target

import (
	"testing"

	"github.com/nvmeof-go/nvmeof/capsule"
)

// TestGatewayBehind: requests for configuration that a gateway may still get from others are refused temporarily.
func TestGatewayBehind(t *testing.T) {
	f, g := withGateway(t)
	const missing, stranger = testSubNQN + "2", testHostNQN + "2"
	g.SetBehind(true)
	f.refused(capsule.StatusConnectControllerBusy, dataOf(missing, testHostNQN), "no such subsystem", "nvmeof gateway list")
	f.refused(capsule.StatusConnectControllerBusy, dataOf(testSubNQN, stranger), "host is not allowed")
	g.SetBehind(false)
	f.refused(capsule.StatusConnectInvalidParam|dnr, dataOf(missing, testHostNQN), "no such subsystem")
	f.refused(capsule.StatusConnectInvalidHost|dnr, dataOf(testSubNQN, stranger), "host is not allowed")
}
