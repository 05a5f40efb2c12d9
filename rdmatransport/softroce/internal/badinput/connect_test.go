package badinput

import (
	"testing"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce/internal/wire"
)

// TestConnectDataLength is row 34: a Connect command whose data is not 1024 bytes is refused before any of it is
// fetched, and a correct one then succeeds on the same connection.
func TestConnectDataLength(t *testing.T) {
	length := capsule.StatusSGLDataLength | capsule.StatusDNR
	keyed := func(n uint32) capsule.SGL { return capsule.KeyedSGL(1<<46, n, 0x1234, false) }
	refused := func(row string, sgl capsule.SGL, data int, want capsule.Status) attack {
		return attack{row: row, run: func(l *lab) {
			c, r := l.gremlin.open()
			c.establish(r)
			cmd := connectCommand(0, 32)
			cmd.SGL = sgl
			b := make([]byte, max(data, capsule.ConnectDataSize))
			connectData(capsule.ControllerIDDynamic).Encode(b)
			l.gremlin.send(c.capsule(cmd, b[:data])...)
			l.gremlin.settle()
			for _, p := range c.got {
				if p.Opcode == wire.RCReadRequest {
					l.t.Errorf("the target reads %d bytes", p.RETH.DMALen)
				}
			}
			if cqe, ok := c.responses()[c.cid]; !ok || cqe.Status != want {
				l.t.Errorf("answered %v with %v, want %v", ok, cqe.Status, want)
			}
			c.connect()
			c.alive()
		}}
	}
	test(t, []attack{
		refused("34 no data", capsule.KeyedSGL(0, 0, 0, false), 0, length),
		// An all-zero descriptor means no data.
		refused("34 all-zero descriptor", capsule.SGL{}, 0, length),
		refused("34 in the capsule, 0 bytes", capsule.InCapsuleSGL(0, 0), 0, length),
		refused("34 in the capsule, 1023 bytes", capsule.InCapsuleSGL(0, 1023), 1023, length),
		refused("34 in the capsule, 1025 bytes", capsule.InCapsuleSGL(0, 1025), 1025, length),
		refused("34 in the capsule, 4096 bytes", capsule.InCapsuleSGL(0, 4096), 4096, length),
		refused("34 in the capsule, 1024 bytes of which 1000 arrive", capsule.InCapsuleSGL(0, 1024), 1000, length),
		refused("34 keyed, 0 bytes at an address", keyed(0), 0, length),
		refused("34 keyed, 1023 bytes", keyed(1023), 0, length),
		refused("34 keyed, 1025 bytes", keyed(1025), 0, length),
	})
}
