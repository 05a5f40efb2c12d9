package nbd

import (
	"encoding/binary"
	"strings"
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/nbd/internal/wire"
)

// TestUnreadHandshake: a client that ends the handshake, or has it ended, and never reads the replies is disconnected
// when the time of the handshake has passed, and makes room for another client before.
func TestUnreadHandshake(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]string{"ABORT": "IHAVEOPT\x00\x00\x00\x02\x00\x00\x00\x00", "no option": strings.Repeat("x", 16)} {
		store := newStore(t, 1<<20, 512)
		unread := func(s *Server) {
			t.Helper()
			if err := s.Publish([]Disk{{Name: "1", Description: strings.Repeat("d", 4000), Store: store}}); err != nil {
				t.Fatal(err)
			}
			c := &client{t: t, c: dial(t, s)}
			c.put([]byte{0, 0, 0, 3})
			info := []byte{0, 0, 0, 0, 0, 1, 0, byte(wire.InfoDescription)}
			all := binary.BigEndian.AppendUint32([]byte("IHAVEOPT"), uint32(wire.OptInfo))
			all = append(binary.BigEndian.AppendUint32(all, uint32(len(info))), info...)
			c.put([]byte(strings.Repeat(string(all), 200) + end)) // whose answers are more than a socket takes
		}
		s := serve(t, Config{Handshake: 50 * time.Millisecond, Polling: nvmeof.PollNever}, store)
		unread(s)
		for limit := time.Now().Add(testTimeout); s.Stats().Slow == 0; time.Sleep(time.Millisecond) {
			if time.Now().After(limit) {
				t.Fatalf("%s: the client stays: %v", name, s.Stats())
			}
		}
		s = serve(t, Config{Clients: 1, Handshake: time.Hour}, newStore(t, 1<<20, 512))
		unread(s)
		for s.Stats().Clients == 0 {
			time.Sleep(time.Millisecond)
		}
		connect(t, s, how{}).read(0, 512)
	}
}
