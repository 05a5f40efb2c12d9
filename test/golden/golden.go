// Package golden provides the recorded traffic between two Linux kernels in testdata (see README.md there) as IP
// packets, for tests.
package golden

import (
	"embed"
	"encoding/binary"
	"fmt"
	"net/netip"
	"path"
	"strings"
	"time"
)

//go:embed testdata/*.pcap testdata/*.txt
var files embed.FS

// A Packet is one recorded UDP datagram to port 4791.
type Packet struct {
	Number  int           // from 1, like tshark's frame numbers
	Time    time.Duration // since the capture's first frame
	Src     netip.AddrPort
	Dst     netip.AddrPort
	IP      []byte // from the IP header to the end of the ICRC
	ID      uint16 // IPv4 identification; 0 for IPv6
	Payload []byte // of the UDP datagram: from the BTH to the end of the ICRC
}

// Names returns the captures whose names start with prefix, without ".pcap".
func Names(prefix string) []string {
	entries, err := files.ReadDir("testdata")
	if err != nil {
		panic(err)
	}
	var names []string
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), ".pcap")
		if ok && strings.HasPrefix(name, prefix) {
			names = append(names, name)
		}
	}
	return names
}

// Text returns the output of nvme-cli that is stored as name: "discover", "id-ctrl" or "id-ns".
func Text(name string) string {
	b, err := files.ReadFile(path.Join("testdata", name+".txt"))
	if err != nil {
		panic(err)
	}
	return string(b)
}

// Load returns the RoCEv2 packets of a capture in order.
func Load(name string) ([]Packet, error) {
	b, err := files.ReadFile(path.Join("testdata", name+".pcap"))
	if err != nil {
		return nil, err
	}
	frames, err := readFrames(b)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	var out []Packet
	for i, f := range frames {
		if p, ok := parse(f.data); ok {
			p.Number, p.Time = i+1, f.at-frames[0].at
			out = append(out, p)
		}
	}
	return out, nil
}

// parse parses Ethernet, IPv4 or IPv6 without options, and UDP.
func parse(frame []byte) (Packet, bool) {
	if len(frame) < 14 {
		return Packet{}, false
	}
	ip := frame[14:]
	var p Packet
	var header int
	var src, dst netip.Addr
	switch {
	case binary.BigEndian.Uint16(frame[12:]) == 0x0800 && len(ip) >= 28 && ip[0] == 0x45 && ip[9] == 17:
		header = 20
		p.IP = ip[:binary.BigEndian.Uint16(ip[2:])]
		p.ID = binary.BigEndian.Uint16(ip[4:])
		src, dst = netip.AddrFrom4([4]byte(ip[12:16])), netip.AddrFrom4([4]byte(ip[16:20]))
	case binary.BigEndian.Uint16(frame[12:]) == 0x86dd && len(ip) >= 48 && ip[6] == 17:
		header = 40
		p.IP = ip[:40+int(binary.BigEndian.Uint16(ip[4:]))]
		src, dst = netip.AddrFrom16([16]byte(ip[8:24])), netip.AddrFrom16([16]byte(ip[24:40]))
	default:
		return Packet{}, false
	}
	udp := p.IP[header:]
	p.Src = netip.AddrPortFrom(src, binary.BigEndian.Uint16(udp))
	p.Dst = netip.AddrPortFrom(dst, binary.BigEndian.Uint16(udp[2:]))
	p.Payload = udp[8:]
	return p, p.Dst.Port() == 4791
}
