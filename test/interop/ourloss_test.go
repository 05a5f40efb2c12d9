package interop

import (
	"testing"
	"time"
)

// ourLoss runs our host against Linux nvmet-rdma, with 3 % lost and 5 % reordered in both directions, and a delay of 1
// ms in each. Verified writes must end without an error, whatever must be reconnected. With -peer=kernel Linux's host
// is used, as far as it can: with fio, which verifies too.
//
// rdma_rxe, which requests the data of writes here, ends connections through its own faults (see wantResetsExplained).
// itself (see wantResetsExplained).
func ourLoss() suite {
	return suite{
		name: "OurLoss", cells: []cell{{"memory,mtu=1500,ipv4", 1500, (*lab).ourHostLoses}},
		verbs: []string{"memory,mtu=1500,ipv4"},
	}
}

func (l *lab) ourHostLoses(t *testing.T) {
	s := setting{"memory", 1500, "ipv4"}
	l.segmentation(t, "off")
	e := s.env().with(env{"addr": s.hostAddr(), "host": s.peerAddr(), "storage": s.storage, "queues": 2}) // the kernel serves
	l.onHost(t, time.Minute, "nvmet", e.with(env{"action": "start"}))
	t.Cleanup(func() { l.onHost(t, time.Minute, "nvmet", e.with(env{"action": "stop"})) })
	l.cleanUpAtEnd(t)
	at := l.logEnd(t)
	stop := l.startCapture(t, "ourloss", 128) // to examine a failure
	if l.ours() {
		l.startPaths(t, peerEnd, "-host "+s.peerAddr(), s.hostAddr()+":4420")
	} else {
		l.onPeer(t, time.Minute, "connect", e)
	}
	l.loss(t, "loss 3% reorder 5%")
	t.Cleanup(func() { l.loss(t, "") })
	if l.ours() {
		time.Sleep(15 * time.Second)
		l.loss(t, "")
		t.Log(l.finishPaths(t, peerEnd))
	} else {
		l.onPeer(t, 5*time.Minute, "fio", e.with(env{"blocks": "4k-64k", "depth": 8, "jobs": 2, "size": 1}))
		l.loss(t, "")
		l.onPeer(t, time.Minute, "disconnect", e.with(env{"limit_ms": 5000}))
	}
	stop()
	l.wantCleanLog(t, at, portGone)
}
