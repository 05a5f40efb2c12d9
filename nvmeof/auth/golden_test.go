package auth

import (
	"bytes"
	"testing"

	"github.com/nvmeof-go/nvmeof/test/golden"
)

// beforeData is the number of header bytes before the data of a packet, by its RC opcode: RDMA READ responses and
// WRITEs, first or only, and SENDs with a capsule.
var beforeData = map[byte]int{0x0d: 12 + 4, 0x10: 12 + 4, 0x06: 12 + 16, 0x0a: 12 + 16, 0x04: 12 + 64, 0x05: 12 + 4 + 64}

// kernelMessages returns the messages of two Linux kernels that authenticate each other with SHA-256 and ffdhe2048.
// Each fits into one packet; the bytes after it are not part of it.
func kernelMessages(t *testing.T) (messages [][]byte) {
	packets, err := golden.Load("nvme-auth")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range packets {
		n, ok := beforeData[p.Payload[0]]
		if !ok || len(p.Payload) < n+fixedSize+4 {
			continue
		}
		m := p.Payload[n : len(p.Payload)-4]
		id := MessageID(m[0])<<8 | MessageID(m[1])
		if _, known := messageNames[id]; known && m[2] == 0 && m[3] == 0 && (id != MessageNegotiate || bytes.HasPrefix(m[6:], []byte{0, 1, 1, 0, 3, 6})) {
			messages = append(messages, m)
		}
	}
	return messages
}

// TestKernelMessages: messages of Linux are decoded, and encode to the same bytes.
func TestKernelMessages(t *testing.T) {
	seen := map[MessageID]int{}
	for _, m := range kernelMessages(t) {
		id, transaction, err := identify(m)
		if err != nil {
			t.Fatal(err)
		}
		seen[id]++
		var again []byte
		switch id {
		case MessageNegotiate:
			var d Negotiate
			d, err = decodeNegotiate(m)
			if len(d.Hashes) != 3 || len(d.Groups) != 6 {
				t.Errorf("Linux offers %v and %v", d.Hashes, d.Groups)
			}
			again = d.Encode()
		case MessageChallenge:
			var d Challenge
			d, err = decodeChallenge(m)
			if d.Hash != HashSHA256 || d.Group != GroupFFDHE2048 || len(d.Value) != 32 || len(d.DH) != 256 || d.Sequence == 0 {
				t.Errorf("Challenge is %+v", d)
			}
			again = d.Encode()
		case MessageReply:
			var d Reply
			d, err = decodeReply(m)
			if len(d.Response) != 32 || len(d.Challenge) != 32 || len(d.DH) != 256 || d.Sequence == 0 {
				t.Errorf("Reply is %+v", d)
			}
			again = d.Encode()
		case MessageSuccess1:
			var d Success1
			d, err = decodeSuccess1(m)
			if len(d.Response) != 32 {
				t.Errorf("Success1 is %+v", d)
			}
			again = d.Encode(32)
		case MessageSuccess2:
			again = encodeSuccess2(transaction)
		}
		if err != nil || !bytes.HasPrefix(m, again) {
			t.Errorf("%v: %v\n% x\nwant\n% x", id, err, again, m[:min(len(m), len(again))])
		}
	}
	for _, id := range []MessageID{MessageNegotiate, MessageChallenge, MessageReply, MessageSuccess1, MessageSuccess2} {
		if seen[id] != 2 { // the admin queue's and the I/O queue's
			t.Errorf("the capture has %d %v, want 2", seen[id], id)
		}
	}
}
