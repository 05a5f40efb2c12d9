package target

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"strings"
	"testing"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/auth"
)

func newKey(t testing.TB) auth.Key {
	t.Helper()
	k, err := auth.GenerateKey(auth.HashSHA256, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// A keyed fixture has a host that must authenticate.
type keyed struct {
	*fixture
	key, ctrlKey auth.Key
	transactions auth.TransactionID
}

func newKeyed(t *testing.T) *keyed {
	t.Helper()
	k := &keyed{newFixture(t), newKey(t), newKey(t), 0}
	k.allow(k.key, k.ctrlKey)
	return k
}

// allow changes the keys in the host's entry.
func (k *keyed) allow(key, ctrlKey auth.Key) {
	k.t.Helper()
	c := HostConfig{NQN: testHostNQN, DHCHAPKey: key, DHCHAPCtrlKey: ctrlKey, DHCHAPGroups: []auth.Group{auth.GroupFFDHE2048, auth.GroupNull}}
	if err := k.sub.SetHost(c); err != nil {
		k.t.Fatal(err)
	}
}

// exchange returns the host's side of an exchange with the keys of the fixture.
func (k *keyed) exchange(change ...func(*auth.HostConfig)) *auth.Host {
	k.transactions++
	c := auth.HostConfig{
		HostNQN: testHostNQN, SubsystemNQN: testSubNQN, HostKey: k.key, ControllerKey: k.ctrlKey,
		Transaction: k.transactions, Sequence: 5, Random: rand.Reader,
	}
	for _, f := range change {
		f(&c)
	}
	return auth.NewHost(c)
}

func authFields(n int) capsule.Auth {
	return capsule.Auth{SPSP0: 1, SPSP1: 1, SECP: capsule.SecurityProtocol, Length: uint32(n)}
}

func authSendCommand(m []byte) *hostCommand {
	c := fabricsCommand(capsule.FabricsAuthSend, authFields(len(m)))
	c.memory = bytes.Clone(m)
	return c
}

func authReceiveCommand(n int) *hostCommand {
	c := fabricsCommand(capsule.FabricsAuthReceive, authFields(n))
	c.memory = make([]byte, n)
	fill(c.memory, 0xa5)
	return c
}

// sendAuth sends the pending message to the target.
func (h *hostQueue) sendAuth(x *auth.Host) {
	h.t.Helper()
	m := bytes.Clone(x.Pending())
	x.Sent()
	h.wantOK(authSendCommand(m))
}

func (h *hostQueue) receiveAuth(x *auth.Host) {
	h.t.Helper()
	c := authReceiveCommand(4096)
	h.wantOK(c)
	x.Receive(c.memory)
}

// authenticate runs an exchange to its end.
func (h *hostQueue) authenticate(x *auth.Host) {
	h.t.Helper()
	for !x.Ended() {
		if x.Pending() != nil {
			h.sendAuth(x)
			continue
		}
		h.receiveAuth(x)
	}
}

// connect connects a queue, without authentication.
func (k *keyed) connect(qid capsule.QID, cntlid capsule.ControllerID) (*hostQueue, capsule.ConnectResponse) {
	k.t.Helper()
	h := k.dial(qid, min(int(qid), 1), 32)
	d := connectData()
	d.CNTLID = cntlid
	r := h.wantOK(connectCommand(capsule.Connect{QID: qid, SQSIZE: 31}, d))
	return h, capsule.ParseConnectResponse(r.result)
}

// gone reports whether the target has ended the queue.
func (h *hostQueue) gone() (ended bool) {
	h.turns(5) // the response comes before the end
	h.call(func() { ended = h.ended })
	return ended
}

// admin connects, authenticates and enables a controller.
func (k *keyed) admin() (*hostQueue, capsule.ControllerID) {
	k.t.Helper()
	h, r := k.connect(0, capsule.ControllerIDDynamic)
	x := k.exchange()
	if h.authenticate(x); x.State() != auth.StateDone {
		k.t.Fatalf("not authenticated: %v", x.Err())
	}
	h.setCC(linuxCC)
	h.setCC(linuxCC.WithEnable(true))
	return h, r.CNTLID
}

func (k *keyed) wantCounts(want AuthCounts) {
	k.t.Helper()
	if got := k.target.AuthCounts(); got != want {
		k.t.Errorf("counters are %+v, want %+v", got, want)
	}
}

// wantFailureLine checks that there is one log line about a failed authentication, with these texts.
func (k *keyed) wantFailureLine(texts ...string) {
	k.t.Helper()
	lines := k.logs.FilterMessage("authentication failed").All()
	if len(lines) != 1 {
		k.t.Fatalf("%d lines about it", len(lines))
	}
	text := fmt.Sprint(lines[0].ContextMap())
	for _, want := range append(texts, testHostNQN, testSubNQN) {
		if !strings.Contains(text, want) {
			k.t.Errorf("no %q in %s", want, text)
		}
	}
	for _, key := range []auth.Key{k.key, k.ctrlKey} {
		if strings.Contains(text, key.Text()) {
			k.t.Error("the log has a key")
		}
	}
}
