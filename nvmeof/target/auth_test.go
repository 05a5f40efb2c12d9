package target

import (
	"bytes"
	"fmt"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/auth"
)

func TestAuthenticate(t *testing.T) {
	k := newKeyed(t)
	h, r := k.connect(0, capsule.ControllerIDDynamic)
	if !r.ATR || r.ASCR {
		t.Fatalf("Connect answers %+v, want ATR alone", r)
	}
	x := k.exchange()
	h.authenticate(x)
	if x.State() != auth.StateDone {
		t.Fatal(x.Err())
	}
	h.setCC(linuxCC)
	h.setCC(linuxCC.WithEnable(true))
	io, r := k.connect(1, r.CNTLID)
	if !r.ATR {
		t.Error("an I/O queue need not authenticate")
	}
	h.call(func() {})
	io.wantStatus(capsule.StatusAuthenticationRequired|dnr, ioCommand(capsule.IORead, 1, capsule.ReadWrite{Blocks: 1}, make([]byte, 512)))
	x = k.exchange(func(c *auth.HostConfig) { c.ControllerKey = auth.Key{} })
	io.authenticate(x)
	io.wantOK(ioCommand(capsule.IORead, 1, capsule.ReadWrite{Blocks: 1}, make([]byte, 512)))
	k.wantCounts(AuthCounts{Succeeded: 2, Refused: 1})
	if info := k.target.Controllers(); len(info) != 1 || !info[0].Authenticated {
		t.Errorf("controllers are %+v", info)
	}
	if n := k.target.waiting.count(); n != 0 {
		t.Errorf("%d connections count as unproven", n)
	}
}

// TestBeforeAuthentication is row 108: no other command is executed before authentication.
func TestBeforeAuthentication(t *testing.T) {
	k := newKeyed(t)
	h, _ := k.connect(0, capsule.ControllerIDDynamic)
	early := []*hostCommand{
		adminCommand(capsule.AdminIdentify, capsule.Identify{CNS: 1}, make([]byte, 4096)),
		adminCommand(capsule.AdminKeepAlive, nil, nil),
		adminCommand(capsule.AdminAsyncEvent, nil, nil),
		adminCommand(0xc0, nil, nil),
		fabricsCommand(capsule.FabricsPropertyGet, capsule.Property{Size: 8}),
		fabricsCommand(capsule.FabricsPropertySet, capsule.Property{Size: 4, Offset: uint32(capsule.PropertyCC), Value: 1}),
		fabricsCommand(capsule.FabricsDisconnect, nil),
		fabricsCommand(0x77, nil),
		connectCommand(capsule.Connect{SQSIZE: 31}, connectData()),
	}
	for i, c := range early {
		h.wantStatus(capsule.StatusAuthenticationRequired|dnr, c)
		k.wantCounts(AuthCounts{Refused: uint64(i + 1)})
	}
	if info := k.target.Controllers(); len(info) != 1 || info[0].Authenticated {
		t.Errorf("controllers are %+v", info)
	}
	h.authenticate(k.exchange()) // the refused commands did no harm
	h.setCC(linuxCC)
}

// TestWrongKey: the host gets the reason, the association ends, and one log line has the reason and the remedy.
func TestWrongKey(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*keyed, *auth.HostConfig)
		texts  []string
	}{
		{"host's", func(k *keyed, c *auth.HostConfig) { c.HostKey = newKey(k.t) },
			[]string{"host does not know its key", "--dhchap-secret", "dhchap-key-file", "refused_by:target"}},
		{"controller's", func(k *keyed, c *auth.HostConfig) { c.ControllerKey = newKey(k.t) },
			[]string{"refused_by:host", "--dhchap-ctrl-secret", "dhchap-ctrl-key-file"}},
		{"no controller's", func(k *keyed, c *auth.HostConfig) { k.allow(k.key, auth.Key{}) },
			[]string{"there is no key for that", "dhchap-ctrl-key-file"}},
		{"hash", func(k *keyed, c *auth.HostConfig) { c.Hashes = []auth.Hash{9} }, []string{"hash 9", "dhchap-hash"}},
		{"group", func(k *keyed, c *auth.HostConfig) { c.Groups = []auth.Group{auth.GroupFFDHE6144} },
			[]string{"ffdhe6144", "dhchap-dhgroup"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k := newKeyed(t)
				h, _ := k.connect(0, capsule.ControllerIDDynamic)
				x := k.exchange(func(config *auth.HostConfig) { c.change(k, config) })
				h.authenticate(x)
				if x.State() != auth.StateFailed {
					t.Fatalf("host is %v", x.State())
				}
				// The host may end the connection itself, but no command is executed on it.
				h.wantStatus(capsule.StatusAuthenticationRequired|dnr, adminCommand(capsule.AdminKeepAlive, nil, nil))
				start := time.Now()
				<-h.closed
				if d := time.Since(start); d < farewellTime-time.Millisecond || d > 2*farewellTime {
					t.Errorf("the connection ended after %v", d)
				}
				k.wantFailureLine(c.texts...)
				k.wantCounts(AuthCounts{Failed: 1, Refused: 1})
				k.admin2(t)
				k.close2(t)
			})
		})
	}
}

// admin2 checks that other hosts are not affected.
func (k *keyed) admin2(t *testing.T) {
	t.Helper()
	k.allow(k.key, k.ctrlKey)
	h, _ := k.admin()
	h.lose()
}

// TestWrongKeyOnIOQueue ends the queue, but not the association, which may belong to another host.
func TestWrongKeyOnIOQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeyed(t)
		h, id := k.admin()
		io, _ := k.connect(1, id)
		io.authenticate(k.exchange(func(c *auth.HostConfig) { c.HostKey = newKey(t) }))
		<-io.closed
		h.property(capsule.PropertyCSTS)
		good, _ := k.connect(1, id)
		good.authenticate(k.exchange())
		good.wantOK(ioCommand(capsule.IORead, 1, capsule.ReadWrite{Blocks: 1}, make([]byte, 512)))

		// A peer that knows the host's names but not its key cannot displace one of its queues.
		thief := k.dial(1, 1, 32)
		d := connectData()
		d.CNTLID = id
		thief.wantStatus(capsule.StatusConnectInvalidParam, connectCommand(capsule.Connect{QID: 1, SQSIZE: 31}, d))
		good.wantOK(ioCommand(capsule.IORead, 1, capsule.ReadWrite{Blocks: 1}, make([]byte, 512)))
		k.close2(t)
	})
}

// TestUnprovenNamesHarmNobody: a controller of a peer that used the host's name and another identifier does not
// exclude the host.
func TestUnprovenNamesHarmNobody(t *testing.T) {
	k := newKeyed(t)
	thief := k.dial(0, 0, 32)
	d := connectData()
	d.HostID[3] ^= 0xff
	thief.wantOK(connectCommand(capsule.Connect{SQSIZE: 31}, d))
	k.admin()
	second := k.dial(0, 0, 32) // but when the host has authenticated, the other one is refused
	second.wantStatus(capsule.StatusConnectInvalidHost, connectCommand(capsule.Connect{SQSIZE: 31}, d))
}

// TestAgain: a queue in use authenticates again, with the key that is configured then.
func TestAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeyed(t)
		h, id := k.admin()
		io, _ := k.connect(1, id)
		io.authenticate(k.exchange())
		read := func() {
			t.Helper()
			io.wantOK(ioCommand(capsule.IORead, 1, capsule.ReadWrite{Blocks: 1}, make([]byte, 512)))
		}
		for range 3 {
			x := k.exchange()
			io.sendAuth(x)
			read() // goes on meanwhile
			io.receiveAuth(x)
			read()
			io.authenticate(x)
			read()
		}
		k.key, k.ctrlKey = newKey(t), newKey(t)
		k.allow(k.key, k.ctrlKey)
		read() // no connection was ended by that
		for _, q := range []*hostQueue{h, io} {
			x := k.exchange()
			if q.authenticate(x); x.State() != auth.StateDone {
				t.Fatal(x.Err())
			}
		}
		read()
		k.wantCounts(AuthCounts{Succeeded: 7})

		// The previous key is no longer valid, and the association ends.
		old := k.key
		k.key = newKey(t)
		k.allow(k.key, k.ctrlKey)
		io.authenticate(k.exchange(func(c *auth.HostConfig) { c.HostKey = old }))
		<-io.closed
		<-h.closed
		k.wantFailureLine("host does not know its key")
		k.close2(t)
	})
}

// TestHostLosesKey: an entry without a key requires no authentication, and accepts none.
func TestHostLosesKey(t *testing.T) {
	k := newKeyed(t)
	k.allow(auth.Key{}, auth.Key{})
	h, r := k.connect(0, capsule.ControllerIDDynamic)
	if r.ATR {
		t.Error("the host has to authenticate without a key")
	}
	h.wantStatus(capsule.StatusInvalidOpcode|dnr, authSendCommand(k.exchange().Pending()))
	h.wantStatus(capsule.StatusInvalidOpcode|dnr, authReceiveCommand(4096))
	k.sub.AllowHost(testHostNQN)
	k.allow(k.key, auth.Key{})
	k.sub.AllowHost(testHostNQN) // does not remove the key
	k.sub.AllowAnyHost(true)     // neither does this
	if _, r = k.connect(0, capsule.ControllerIDDynamic); !r.ATR {
		t.Error("the host's key is forgotten")
	}
	k.sub.SetHost(HostConfig{NQN: testHostNQN})
}

// TestAuthCommands is rows 104 and 109.
func TestAuthCommands(t *testing.T) {
	k := newKeyed(t)
	h, _ := k.connect(0, capsule.ControllerIDDynamic)
	x := k.exchange()
	with := func(c *hostCommand, change func(*capsule.Auth)) *hostCommand {
		f := c.sqe.Auth()
		change(&f)
		f.Put(&c.sqe)
		return c
	}
	for _, c := range []struct {
		name   string
		change func(*capsule.Auth)
	}{
		{"SECP", func(a *capsule.Auth) { a.SECP = 0xea }},
		{"SPSP0", func(a *capsule.Auth) { a.SPSP0 = 0 }},
		{"SPSP1", func(a *capsule.Auth) { a.SPSP1 = 2 }},
		{"length 0", func(a *capsule.Auth) { a.Length = 0 }},
		{"length 1", func(a *capsule.Auth) { a.Length = 1 }},
		{"length above the SGL's", func(a *capsule.Auth) { a.Length++ }},
		{"length ffffffff", func(a *capsule.Auth) { a.Length = 0xffffffff }},
	} {
		t.Run(c.name, func(t *testing.T) {
			h.t = t
			h.wantStatus(invalidField, with(authSendCommand(x.Pending()), c.change))
			h.wantStatus(invalidField, with(authReceiveCommand(4096), c.change))
		})
	}
	h.t = t
	h.wantStatus(invalidField, authSendCommand(make([]byte, maxAuthData+1)))
	h.wantStatus(invalidField, authReceiveCommand(maxAuthData+1))

	h.wantStatus(invalidField, authReceiveCommand(4096)) // nothing is due
	h.sendAuth(x)
	h.wantStatus(invalidField, authReceiveCommand(1))
	h.wantStatus(invalidField, authReceiveCommand(300)) // the challenge has 16 + 64 + 256 bytes
	c := authReceiveCommand(4096)
	h.wantOK(c)
	for i, b := range c.memory[16+64+256:] {
		if b != 0 {
			t.Fatalf("byte %d behind the message is %#x", i, b)
		}
	}
	h.wantStatus(invalidField, authReceiveCommand(4096)) // not twice
	x.Receive(c.memory)
	h.authenticate(x)
	if x.State() != auth.StateDone {
		t.Error(x.Err())
	}
	h.wantStatus(invalidField, authReceiveCommand(4096))
	k.wantCounts(AuthCounts{Succeeded: 1})
}

// TestAuthSendWhileBusy: the authenticator has at most one message of a queue at a time.
func TestAuthSendWhileBusy(t *testing.T) {
	k := newKeyed(t)
	block := k.occupy()
	h, _ := k.connect(0, capsule.ControllerIDDynamic)
	x := k.exchange()
	m := bytes.Clone(x.Pending())
	first := h.start(authSendCommand(m))
	first.wantPending()
	h.wantStatus(capsule.StatusCommandSequence|dnr, authSendCommand(m))
	h.wantStatus(invalidField, authReceiveCommand(4096))
	h.wantStatus(capsule.StatusAuthenticationRequired|dnr, adminCommand(capsule.AdminKeepAlive, nil, nil))
	close(block)
	if r := <-first.response; !r.status.OK() {
		t.Error(r.status)
	}
	x.Sent()
	h.authenticate(x)
}

// TestAuthOverload: if too many messages wait for the authenticator, the host gets a status that it retries.
func TestAuthOverload(t *testing.T) {
	k := newKeyed(t)
	h, _ := k.connect(0, capsule.ControllerIDDynamic)
	block := k.occupy()
	for k.target.authenticator.offer(authJob{h.q.remote.Addr(), &computation{}, new(atomic.Bool), func() {}}) {
	}
	x := k.exchange()
	for range 2 {
		h.wantStatus(capsule.StatusCommandInterrupted, authSendCommand(x.Pending()))
	}
	k.wantCounts(AuthCounts{Interrupted: 2})
	other := k.dial(0, 0, 32)
	other.q.remote = netip.MustParseAddrPort("192.0.2.7:4791")
	other.wantOK(connectCommand(capsule.Connect{SQSIZE: 31}, connectData()))
	first := other.start(authSendCommand(k.exchange().Pending())) // an address without a waiting message is not refused
	first.wantPending()
	close(block)
	if r := <-first.response; !r.status.OK() {
		t.Errorf("another address: %v", r.status)
	}
	if h.authenticate(x); x.State() != auth.StateDone {
		t.Error(x.Err())
	}
}

// TestQueueLostWhileBusy: the authenticator returns an exchange to a queue that has ended.
func TestQueueLostWhileBusy(t *testing.T) {
	k := newKeyed(t)
	block := k.occupy()
	h, _ := k.connect(0, capsule.ControllerIDDynamic)
	h.start(authSendCommand(k.exchange().Pending())).wantPending()
	h.fail(&rdmaError{})
	h.turns(3)
	select {
	case <-h.closed:
		t.Error("queue is freed while a command of it is out")
	default:
	}
	close(block)
	<-h.closed
	k.admin()
}

// TestAuthTimeout is row 109: a host that stalls is disconnected, wherever it does so.
func TestAuthTimeout(t *testing.T) {
	for _, messages := range []int{0, 1, 2, 3} {
		t.Run(fmt.Sprint(messages), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k := newKeyed(t)
				h, _ := k.connect(0, capsule.ControllerIDDynamic)
				x := k.exchange()
				for range messages {
					time.Sleep(time.Second)
					if x.Pending() != nil {
						h.sendAuth(x)
					} else {
						h.receiveAuth(x)
					}
				}
				start := time.Now().Add(-time.Duration(messages) * time.Second)
				<-h.closed
				if d := time.Since(start); d < k.target.cfg.AuthTimeout || d > k.target.cfg.AuthTimeout+time.Second {
					t.Errorf("dropped after %v", d)
				}
				if k.logs.FilterMessage("authentication not finished in time").Len() != 1 {
					t.Error("no log line about it")
				}
				k.wantCounts(AuthCounts{TimedOut: 1})
				k.close2(t)
			})
		})
	}
}

// TestUnfetchedFailure is row 107: a host that does not fetch the failure reason is disconnected too, with a
// single log line.
func TestUnfetchedFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeyed(t)
		h, _ := k.connect(0, capsule.ControllerIDDynamic)
		h.wantOK(authSendCommand([]byte{9, 9, 0, 0, 1, 0}))
		<-h.closed
		k.wantFailureLine("incorrect protocol message")
		if k.logs.FilterMessage("authentication not finished in time").Len() != 0 {
			t.Error("a second line about it")
		}
		k.close2(t)
	})
}

// TestUnprovenFlood: connections that never authenticate use no more places than those that never connect.
func TestUnprovenFlood(t *testing.T) {
	k := newKeyed(t)
	before := k.target.waiting.count()
	h, _ := k.connect(0, capsule.ControllerIDDynamic)
	if n := k.target.waiting.count(); n != before+1 {
		t.Errorf("%d unproven connections, want %d", n, before+1)
	}
	h.lose()
	if n := k.target.waiting.count(); n != before {
		t.Errorf("%d unproven connections after its end, want %d", n, before)
	}
}

func TestSetHost(t *testing.T) {
	f := newFixture(t)
	key := newKey(t)
	for _, c := range []struct {
		name string
		host HostConfig
		want string // in the error; "": none
	}{
		{"plain", HostConfig{NQN: testHostNQN}, ""},
		{"keys", HostConfig{NQN: testHostNQN, DHCHAPKey: key, DHCHAPCtrlKey: key, DHCHAPHashes: auth.AllHashes(), DHCHAPGroups: auth.AllGroups()}, ""},
		{"no name", HostConfig{}, "NQN is empty"},
		{"control characters", HostConfig{NQN: "nqn\n"}, "not printable"},
		{"controller's key alone", HostConfig{NQN: testHostNQN, DHCHAPCtrlKey: key}, "needs a host's key"},
		{"hash", HostConfig{NQN: testHostNQN, DHCHAPHashes: []auth.Hash{0}}, "unknown hash"},
		{"group", HostConfig{NQN: testHostNQN, DHCHAPGroups: []auth.Group{6}}, "unknown Diffie-Hellman group"},
	} {
		err := f.sub.SetHost(c.host)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

// FuzzAuthSend sends arbitrary data on a locked queue: it stays locked, or ends.
func FuzzAuthSend(f *testing.F) {
	f.Add((&auth.Negotiate{Hashes: auth.AllHashes(), Groups: auth.AllGroups()}).Encode(), []byte{1, 2, 0, 0})
	f.Add([]byte{0, 0xf0, 0, 0, 0, 0, 1, 1}, []byte{})
	f.Fuzz(func(t *testing.T, first, second []byte) {
		k := newKeyed(t)
		h, _ := k.connect(0, capsule.ControllerIDDynamic)
		for _, m := range [][]byte{first, second} {
			if len(m) == 0 || len(m) > 4096 {
				continue
			}
			for _, c := range []*hostCommand{authSendCommand(m), authReceiveCommand(4096)} {
				if h.gone() {
					return
				}
				h.do(c)
			}
		}
		if k.target.AuthCounts().Succeeded != 0 {
			t.Error("authenticated without the key")
		}
	})
}

// TestDiscoveryReportsKeys: a host learns from discovery that it has to authenticate, and needs no key for that.
func TestDiscoveryReportsKeys(t *testing.T) {
	k := newKeyed(t)
	if _, err := k.target.Listen(netip.MustParseAddrPort("192.0.2.1:4420")); err != nil {
		t.Fatal(err)
	}
	treq := func() uint8 {
		h := k.connectDiscovery(testHostNQN)
		defer h.lose()
		es, _ := h.discover()
		return es[1].TREQ
	}
	if got := treq(); got&3 != capsule.TREQSecureRequired {
		t.Errorf("TREQ of a host with a key is %#x", got)
	}
	k.allow(auth.Key{}, auth.Key{})
	if got := treq(); got&3 != 0 {
		t.Errorf("TREQ of a host without a key is %#x", got)
	}
}

// TestKeepAliveWaitsForAuthentication: a host that computes for longer than its keep alive timeout does not
// expire, but it does afterwards.
func TestKeepAliveWaitsForAuthentication(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeyed(t)
		h := k.dial(0, 0, 32)
		h.wantOK(connectCommand(capsule.Connect{SQSIZE: 31, KATO: 1000}, connectData()))
		x := k.exchange()
		for !x.Ended() {
			time.Sleep(10 * time.Second)
			if x.Pending() != nil {
				h.sendAuth(x)
			} else {
				h.receiveAuth(x)
			}
		}
		if x.State() != auth.StateDone {
			t.Fatal(x.Err())
		}
		start := time.Now()
		<-h.closed
		if d := time.Since(start); d > 5*time.Second {
			t.Errorf("a silent host is given up after %v", d)
		}
		k.close2(t)
	})
}
