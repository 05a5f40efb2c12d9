package host

import (
	"context"
	"testing"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/internal/fabric"
)

// TestDiscoverWithoutEnd: a log that was read is returned even if the disconnect fails.
func TestDiscoverWithoutEnd(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newLiar(t)
		l.identify = func(i *capsule.IdentifyController) { *i = capsule.IdentifyController{CNTLID: l.cntlid, SGLS: i.SGLS} }
		l.log = func(off uint64, b []byte) {
			if off == 0 {
				capsule.DiscoveryHeader{GENCTR: 7, NUMREC: 2}.Encode(b)
			}
		}
		l.answer = func(c *fabric.Command, result *uint64, _ []byte) { // its shutdown is never complete
			if c.SQE.Opcode == capsule.OpcodeFabrics && c.SQE.FabricsType() == capsule.FabricsPropertyGet &&
				capsule.PropertyOffset(c.SQE.Property().Offset) == capsule.PropertyCSTS {
				*result = uint64(capsule.CSTSReady)
			}
		}
		log, err := l.host.Discover(context.Background(), Options{Traddr: l.addr.Addr()})
		if err != nil || log.Generation != 7 || len(log.Entries) != 2 {
			t.Errorf("%v", err)
		}
	})
}
