package capsule

import (
	"encoding/binary"
	"fmt"
)

// Lengths in bytes of log pages that are tables of 4 byte numbers.
const (
	SupportedLogSize = 4 * 256
	FIDEffectsSize   = 4 * 256
	MIEffectsSize    = 4096
)

// EffectsLog is the Commands Supported and Effects log (NVMe base 2.0, 5.16.1.6): one entry for each opcode, which is 0
// if the command is not supported.
type EffectsLog struct {
	Admin [256]Effects
	IO    [256]Effects
}

func (e *EffectsLog) fields(l layout) {
	for i := range e.Admin {
		u32(l, 4*i, &e.Admin[i])
		u32(l, 1024+4*i, &e.IO[i])
	}
}

// DecodeEffectsLog decodes the 4096 bytes at the start of b.
func DecodeEffectsLog(b []byte) (e EffectsLog, err error) {
	l, err := decoder(b, EffectsLogSize)
	if err == nil {
		e.fields(l)
	}
	return e, err
}

// Encode fills the first 4096 bytes of b.
func (e *EffectsLog) Encode(b []byte) { e.fields(encoder(b, EffectsLogSize)) }

// LogSupport describes one log page in the Supported Log Pages log.
type LogSupport uint32

const (
	LogSupported   LogSupport = 1 << 0
	LogIndexOffset LogSupport = 1 << 1 // an offset may be an index
)

// SupportedLog is the Supported Log Pages log (NVMe base 2.0, 5.16.1.1), by [LID].
type SupportedLog [256]LogSupport

func (s *SupportedLog) fields(l layout) {
	for i := range s {
		u32(l, 4*i, &s[i])
	}
}

// DecodeSupportedLog decodes the 1024 bytes at the start of b.
func DecodeSupportedLog(b []byte) (s SupportedLog, err error) {
	l, err := decoder(b, SupportedLogSize)
	if err == nil {
		s.fields(l)
	}
	return s, err
}

// Encode fills the first 1024 bytes of b.
func (s *SupportedLog) Encode(b []byte) { s.fields(encoder(b, SupportedLogSize)) }

// FIDEffectsLog is the Feature Identifiers Supported and Effects log (NVMe base
// 2.0, 5.16.1.18), by [FID].
type FIDEffectsLog [256]FeatureEffects

func (f *FIDEffectsLog) fields(l layout) {
	for i := range f {
		u32(l, 4*i, &f[i])
	}
}

// DecodeFIDEffectsLog decodes the 1024 bytes at the start of b.
func DecodeFIDEffectsLog(b []byte) (f FIDEffectsLog, err error) {
	l, err := decoder(b, FIDEffectsSize)
	if err == nil {
		f.fields(l)
	}
	return f, err
}

// Encode fills the first 1024 bytes of b.
func (f *FIDEffectsLog) Encode(b []byte) { f.fields(encoder(b, FIDEffectsSize)) }

// MIEffectsLog is the NVMe-MI Commands Supported and Effects log (NVMe base 2.0,
// 5.16.1.19), by opcode. Its bits are those of [FeatureEffects].
type MIEffectsLog [256]FeatureEffects

func (m *MIEffectsLog) fields(l layout) {
	for i := range m {
		u32(l, 4*i, &m[i])
	}
}

// DecodeMIEffectsLog decodes the 4096 bytes at the start of b.
func DecodeMIEffectsLog(b []byte) (m MIEffectsLog, err error) {
	l, err := decoder(b, MIEffectsSize)
	if err == nil {
		m.fields(l)
	}
	return m, err
}

// Encode fills the first 4096 bytes of b.
func (m *MIEffectsLog) Encode(b []byte) { m.fields(encoder(b, MIEffectsSize)) }

// An ANALog is the Asymmetric Namespace Access log with all of its groups.
type ANALog struct {
	ChangeCount uint64
	Groups      []ANALogGroup
}

// An ANALogGroup is the descriptor of a group with its namespaces in ascending order.
type ANALogGroup struct {
	Group       ANAGroup
	ChangeCount uint64
	State       ANAState
	Namespaces  []NSID // empty if the log was requested without namespaces
}

// ParseANALog decodes a log of any length. It must contain all groups that its header announces.
func ParseANALog(b []byte) (ANALog, error) {
	h, err := DecodeANALogHeader(b)
	if err != nil {
		return ANALog{}, err
	}
	log := ANALog{ChangeCount: h.CHGCNT}
	b = b[ANALogHeaderSize:]
	for i := range int(h.NGRPS) {
		g, rest, err := parseANAGroup(b)
		if err != nil {
			return ANALog{}, fmt.Errorf("ANA log: group %d of %d: %w", i+1, h.NGRPS, err)
		}
		log.Groups, b = append(log.Groups, g), rest
	}
	return log, nil
}

func parseANAGroup(b []byte) (g ANALogGroup, rest []byte, err error) {
	d, err := DecodeANADescriptor(b)
	if err != nil {
		return g, nil, err
	}
	if !InRange(ANADescriptorHeader, 4*uint64(d.NNSIDS), uint64(len(b))) {
		return g, nil, ErrShort
	}
	g = ANALogGroup{Group: d.Group, ChangeCount: d.CHGCNT, State: d.State}
	b = b[ANADescriptorHeader:]
	for range d.NNSIDS {
		g.Namespaces = append(g.Namespaces, NSID(binary.LittleEndian.Uint32(b)))
		b = b[4:]
	}
	return g, b, nil
}

// Size returns the number of bytes that Encode fills.
func (a *ANALog) Size() int {
	n := ANALogHeaderSize
	for i := range a.Groups {
		n += ANADescriptorHeader + 4*len(a.Groups[i].Namespaces)
	}
	return n
}

// Encode fills the first Size bytes of b.
func (a *ANALog) Encode(b []byte) {
	ANALogHeader{CHGCNT: a.ChangeCount, NGRPS: uint16(len(a.Groups))}.Encode(b)
	b = b[ANALogHeaderSize:]
	for _, g := range a.Groups {
		ANADescriptor{Group: g.Group, NNSIDS: uint32(len(g.Namespaces)), CHGCNT: g.ChangeCount, State: g.State}.Encode(b)
		b = b[ANADescriptorHeader:]
		PutNSIDs(b, g.Namespaces)
		b = b[4*len(g.Namespaces):]
	}
}
