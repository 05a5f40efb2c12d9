package nbd

import (
	"io"
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/nvmeof/nbd/internal/wire"
)

// TestShareOfADisk: the clients of one disk leave places for other disks, and take all places if there is no other
// disk.
func TestShareOfADisk(t *testing.T) {
	const clients = 16
	disk := newStore(t, 1<<20, 512)
	s := serve(t, Config{Clients: clients}, disk, newStore(t, 1<<20, 512))
	opens := func(export string) (*client, bool) {
		c := &client{t: t, c: dial(t, s), lengths: map[wire.Cookie]int{}}
		if _, err := io.ReadFull(c.c, make([]byte, 18)); err != nil {
			return nil, false // there are as many
		}
		c.put([]byte{0, 0, 0, 3})
		c.option(wire.OptGo, []byte{0, 0, 0, 1, export[0], 0, 0})
		got := c.optionReply()
		for got == wire.RepInfo {
			got = c.optionReply()
		}
		if got != wire.RepAck {
			_ = c.c.Close()
		}
		return c, got == wire.RepAck
	}
	most := func(export string) (all []*client) {
		for range clients {
			if c, ok := opens(export); ok {
				all = append(all, c)
			}
		}
		return all
	}
	first := most("1")
	if len(first) != clients-2 {
		t.Errorf("a disk has %d clients beside one that has none", len(first))
	}
	if n := s.Stats().Share; n != 2 {
		t.Errorf("%d were refused", n)
	}
	second := most("2")
	if len(second) != 2 {
		t.Errorf("the other has %d", len(second))
	}
	for _, c := range append(first, second...) {
		c.read(0, 512)
		_ = c.c.Close()
	}
	if err := s.Publish(disks(disk)); err != nil {
		t.Fatal(err)
	}
	var alone []*client
	for end := time.Now().Add(testTimeout); len(alone) < clients && time.Now().Before(end); { // once those of before are gone
		alone = append(alone, most("1")...)
	}
	if len(alone) != clients {
		t.Errorf("a disk alone has %d clients", len(alone))
	}
}

// TestHandshakeMakesRoom: a silent client does not keep others from their disk, and gives way to the next client;
// clients with a disk stay.
func TestHandshakeMakesRoom(t *testing.T) {
	s := serve(t, Config{Clients: 3, Handshake: time.Hour}, newStore(t, 1<<20, 512))
	here := connect(t, s, how{})
	var silent []*client
	for range 2 {
		c := &client{t: t, c: dial(t, s)}
		c.get(18)
		silent = append(silent, c)
	}
	second := connect(t, s, how{})
	silent[0].gone()
	third := connect(t, s, how{})
	silent[1].gone()
	(&client{t: t, c: dial(t, s)}).gone() // now there are three
	for _, c := range []*client{here, second, third} {
		c.read(0, 512)
	}
	if n := s.Stats(); n.GaveWay != 2 || n.TooMany != 1 {
		t.Errorf("%+v", n)
	}
}
